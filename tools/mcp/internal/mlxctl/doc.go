// Mlxctl is an MCP server over standard input and output with the tools mlx.load and mlx.unload: it starts servers of
// language models at the ports 8100 to 8139 of its machine, and ends them. It needs Linux.
//
// MLXCTL_COMMAND is the command that serves a model, for example
//
//	mlx_lm.server --model {model} --port {port}
//
// Its words are separated by spaces; no shell reads it. In each word {model} and {port} stand for what was asked for.
// The command gets the environment of mlxctl but for its own variables. A model is loaded as soon as its port takes
// connections at 127.0.0.1, so a model on another machine needs a command that forwards the port.
//
// MLXCTL_MODELS is a folder: only models that are there by their name can be loaded. Without it the command decides:
// one that ends with status 66, which is EX_NOINPUT of sysexits.h, says that there is no such model.
//
// A model ends when it is unloaded, and when mlxctl does, however that ends: each has a supervisor, which ends all that
// the command has started. What is at a port that mlxctl has not put there is never touched.
package main
