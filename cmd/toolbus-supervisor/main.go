// Command toolbus-supervisor runs one tool for an executor and ends its whole process tree. It
// is found beside the executor's binary and started by it alone; see supervisor.
package main

import (
	"fmt"
	"os"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

func main() {
	supervisor.SupervisorMain()
	if len(os.Args) == 2 && (os.Args[1] == "--help" || os.Args[1] == "-h") {
		fmt.Print(supervisor.Help)
		return
	}
	fmt.Fprintln(os.Stderr, "toolbus-supervisor is started by an executor, not by hand: start executor or toolbus instead")
	os.Exit(2)
}
