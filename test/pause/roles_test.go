package pause

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// TestMain turns this binary into one of the processes that tests need: those that are stopped
// and killed cannot be part of the test itself.
func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) > 2 && os.Args[1] == "role" {
		if err := play(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// play is what this binary does in a role; those that serve do so until they are killed.
func play(role string, args []string) error {
	switch role {
	case "server": // store directory, always|default
		srv, err := natsserver.Start(natsserver.Options{StoreDir: args[0], SyncAlways: args[1] == "always"})
		if err != nil {
			return err
		}
		fmt.Println(srv.URL())
		<-make(chan struct{})
	case "tool": // ledger
		return effects.Run(os.Stdin, os.Stdout, args[0])
	case "executor": // tools directory, input, time: runs one call of chaos.put
		registry, err := tool.Load(args[0], app.Transports()...)
		if err != nil {
			return err
		}
		adapter, err := process.New(process.Options{})
		if err != nil {
			return err
		}
		timeout, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		m, _ := registry.Get("chaos.put", "")
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_, err = adapter.Execute(ctx, m, invocation(args[1], timeout), silent{})
		return err
	case "worker": // server, tools directory: an executor that works until it is killed
		return execute(args[0], args[1])
	case "loose": // ledger: as an executor that lets go of its tools would
		cmd := exec.Command(os.Args[0], "role", "tool", args[0])
		cmd.Stdin = strings.NewReader(`{"op":"execute","tool_id":"chaos.put","idempotency_key":"key","attempt":1,"fence":1,` +
			`"input":` + work + `}`)
		return cmd.Run()
	}
	return fmt.Errorf("no role %q", role)
}

// The inputs of runs. A long one lasts until its executor is killed, however long that takes; the other is
// waited for.
const (
	work     = `{"n":1,"work_ms":1500}`
	longWork = `{"n":1,"work_ms":60000}`
)

func invocation(input string, timeout time.Duration) tool.Invocation {
	return tool.Invocation{
		CallID: callA, ToolID: "chaos.put", ToolVersion: "1.0.0", Fn: effects.Fn, Input: []byte(input), IdempotencyKey: "key",
		Attempt: 1, Fence: 1, Deadline: time.Now().Add(timeout),
	}
}

// start starts this binary in a role. It is killed when the test ends, if it lives then.
func start(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"role", role}, args...)...)
	cmd.Stderr = os.Stderr
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // or been waited for
		}
	})
	return cmd
}
