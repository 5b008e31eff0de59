"""What the benchmarks share. Nothing but Python's standard library is needed.

  machine   the machine in general terms; its caches, memory and disk
  presign   presigned URLs
  servers   millraced and its peers: starting, stopping
  loadgen   runs of `load` (bench/load.c)
  scale     how much a run does
  phases    the rows of the comparison, each a run of `load` on every server
  beside    experiments on every server that are more than one run
  alone     experiments on millraced only, with servers of their own
  overwriting  a store that is mostly full, overwritten at random
  limits    what library, disk and processor could do at most
  results   a run's figures and their medians
  targets   what is to be reached, and what was
  page      a run as a page: tables (tables) and plots (plots)
"""
