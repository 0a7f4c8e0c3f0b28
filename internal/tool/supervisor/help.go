package supervisor

// Help is the text that toolbus-supervisor prints with --help.
const Help = `toolbus-supervisor runs one tool for an executor and ends every process that the tool has started.

Executors start it for each run of a tool. It takes no arguments: do not start it by hand. Install it in the
folder of the executor or toolbus binary. Without it, executors start their own binary, which is larger and slower.

Exit codes:
  0  help was printed
  2  it was not started by an executor
`
