package program_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-018f16cc/toolbus/program"
)

// asProgram makes the test binary a tool, so that Main can be tested as the process it is.
const asProgram = "PROGRAM_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	program.Main(program.Tool{
		"greet": {Execute: program.Typed(greet)},
		"fail": {Execute: func(context.Context, *program.Call, *program.Stream) (program.Result, error) {
			return program.Result{}, errors.New("no disk:\n\tis it mounted?")
		}},
		// wait runs until it is told to stop.
		"wait": {Execute: func(ctx context.Context, _ *program.Call, out *program.Stream) (program.Result, error) {
			if err := out.Progress("waiting"); err != nil {
				return program.Result{}, err
			}
			<-ctx.Done()
			return program.Result{Output: context.Cause(ctx).Error()}, nil
		}},
	})
}

func start(t *testing.T, request string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin = strings.NewReader(request)
	return cmd
}

func TestMainAnswers(t *testing.T) {
	t.Parallel()
	out, err := start(t, `{"op":"execute","fn":"greet","input":{"name":"nobody"}}`).Output()
	if err != nil || !strings.Contains(string(out), `"unknown_name"`) {
		t.Errorf("%s, %v", out, err)
	}
}

// The last line of standard error has the whole error.
func TestMainFault(t *testing.T) {
	t.Parallel()
	out, err := start(t, `{"op":"execute","fn":"fail"}`).Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || len(out) > 0 {
		t.Fatalf("%s, %v", out, err)
	}
	if got := string(exit.Stderr); got != "error: no disk: is it mounted?\n" {
		t.Errorf("stderr is %q", got)
	}
}

func TestMainStopsOnSIGTERM(t *testing.T) {
	t.Parallel()
	cmd := start(t, `{"op":"execute","fn":"wait"}`)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.Contains(lines.Text(), "waiting") {
		t.Fatalf("the first line is %q", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), `"output"`) {
		t.Errorf("the last line is %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
