package main

import (
	"fmt"
	"golang.org/x/sys/unix"
	"os"
	"os/exec"
	"sort"
	"time"
)

func main() {
	if len(os.Args) > 2 {
		for _, a := range os.Args[2] {
			switch a {
			case 's':
				unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
			case 'd':
				unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
			case 'n':
				unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
			case 'e':
				exec.Command("/bin/true").Run()
			case 'S':
				unix.Setsid()
			}
		}
		os.Exit(0)
	}
	for _, m := range []string{"x", "s", "d", "n", "e", "S", "sde"} {
		var ds []time.Duration
		for range 100 {
			t := time.Now()
			exec.Command("/proc/self/exe", "x", m).Run()
			ds = append(ds, time.Since(t))
		}
		sort.Slice(ds, func(i, j int) bool { return ds[i] < ds[j] })
		fmt.Println(m, "p50", ds[50], "p95", ds[95])
	}
}
