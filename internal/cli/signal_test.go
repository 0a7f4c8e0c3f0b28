package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// stubborn is a process that does not end after the first signal.
func stubborn() {
	ctx, _ := cli.UntilSignal()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("told")
	<-time.After(time.Minute)
}

func TestSecondSignalEndsTheProcess(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			t.Logf("%v is ignored here, as it is under nohup, and so would the process", sig)
			continue
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "stubborn")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for _, want := range []string{"ready", "told"} {
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("it said %q, %v, not %q", lines.Text(), lines.Err(), want)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if err := signalUntil(t, cmd.Process, sig, ended); err == nil || !strings.Contains(err.Error(), sig.String()) {
			t.Errorf("two of %v ended it with %v", sig, err)
		}
	}
}

// signalUntil repeats the signal, because the second one may arrive just before the process is ready for it.
func signalUntil(t *testing.T, p *os.Process, sig syscall.Signal, ended <-chan error) error {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			_ = p.Signal(sig) // it may be gone by now
		}
	}
	_ = p.Kill() // it is gone if this fails
	t.Error("signals do not end it")
	return <-ended
}
