// Package cli holds what the commands of Toolbus share: the flags of a process that serves a part
// of the bus, and the two commands, dispatcher and executor, that exist as programs of their own
// and as subcommands of toolbus. It reads neither the environment nor the command line; package
// main hands both in.
package cli
