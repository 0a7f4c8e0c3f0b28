// Package cli contains the shared parts of the command-line programs: flags, contexts, output, and the commands
// dispatcher and executor. These two are programs of their own, and subcommands of toolbus as well. Package main passes
// the command line and an [Env] to them.
package cli
