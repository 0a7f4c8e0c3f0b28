//go:build !linux

package supervisor

import (
	"fmt"
	"os"
)

// RunIfSupervisor refuses: supervisors need Linux.
func RunIfSupervisor() {
	if len(os.Args) == 1 && os.Args[0] == Name {
		fmt.Fprintln(os.Stderr, "toolbus: process tools need Linux")
		os.Exit(1)
	}
}
