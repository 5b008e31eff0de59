"""A client of the RDMA protocol written from docs/rdma-protocol.md alone, with nothing of the project's own code: what it can do shows that the page
suffices, and what the server answers it shows that the server keeps to the page.

independent_verbs.c and verbs.py reach libibverbs and librdmacm, signer.py signs and sends HTTP, messages.py has the binary layouts, session.py the protocol.
"""
