"""What the benchmarks share. Nothing but Python's standard library is needed.

  machine    the machine in general terms; its caches, memory and disk      servers   millraced and its peers: starting, stopping
  loadgen    runs of `load` (bench/load.c)                                   limits    what machine and library could do at most
  presign    presigned URLs                                                  phases    the rows of the comparison, each a run of `load`
  tables     Markdown                                                        beside    experiments on every server that are more than one run
  plots      SVG                                                             alone     experiments on millraced only, with servers of their own
  scale      how much a run does
  results    a run's figures and their medians                               targets   what is to be reached, and what was
  page       a run as a page
"""
