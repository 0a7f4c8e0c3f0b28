// Package native runs tools that are Go functions of this program.
//
// A native tool must return when its context ends, because Go cannot end a goroutine from outside. A run that does not
// return within 200 ms after that is abandoned: its call ends with a *tool.StoppedError, and its further chunks are
// refused. The abandoned run still counts towards limits.concurrency_max of the tool in this process. When abandoned
// runs use up that limit, calls of the tool fail with S-TOOL-UNAVAILABLE until one of them returns or the process is
// restarted. Code that may not return belongs in a tool with transport process.
package native
