// Package usage reads the CPU time, memory and wake-ups of processes on Linux. On other systems its functions return an
// error.
package usage
