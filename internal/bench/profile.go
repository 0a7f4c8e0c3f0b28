package bench

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// Profiled runs f and writes a CPU profile and an allocation profile to the given files. An empty name writes none.
func Profiled(cpu, mem string, f func() error) error {
	if cpu != "" {
		out, err := os.Create(cpu)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if mem == "" {
		return f()
	}
	out, err := os.Create(mem) // fail before f runs if the file cannot be created
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, out.Close())
	}
	runtime.GC() // the profile shows the state of the last collection
	return errors.Join(pprof.Lookup("allocs").WriteTo(out, 0), out.Close())
}
