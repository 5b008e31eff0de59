"""Processes for tests of PyTorch: forked from one that has imported it, which takes some seconds of a processor, and nothing else of the test's."""
import multiprocessing

forkserver = multiprocessing.get_context("forkserver")
forkserver.set_forkserver_preload(["torch.distributed.checkpoint", "torch.distributed.device_mesh", "torch.distributed.tensor", "torch.utils.data",
                                   "tests.integration.test_torch", "tests.integration.test_torch_formats"])
