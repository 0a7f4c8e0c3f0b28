package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/program"
)

type greeting struct {
	Name string `json:"name"`
}

var errFault = errors.New("a fault of the program")

// greeter shows every way a function can end; the name says which.
func greeter() program.Tool {
	return program.Tool{
		"greet": {Execute: program.Typed(greet), Lookup: program.Typed(lookUp)},
		"rehearse": {DryRun: true, Execute: program.Typed(
			func(_ context.Context, call *program.Call, _ greeting, _ *program.Stream) (program.Result, error) {
				return program.Result{Output: call.DryRun}, nil
			})},
	}
}

func greet(_ context.Context, _ *program.Call, in greeting, out *program.Stream) (program.Result, error) {
	switch in.Name {
	case "nobody":
		return program.Result{}, fmt.Errorf("greet: %w", &program.Error{
			Code: "unknown_name", Message: "nobody of that name", Effect: program.EffectNone,
			Details: map[string]any{"b": 2, "a": 1}, RetryAfter: 1500 * time.Millisecond,
		})
	case "vague":
		return program.Result{}, &program.Error{Code: "unknown_name", Message: "who?"}
	case "fault":
		return program.Result{}, errFault
	case "long":
		return program.Result{Output: strings.Repeat("x", program.MaxLine)}, nil
	case "absent":
		return program.Result{}, program.ErrAbsent
	}
	for _, emit := range []func(any) error{out.Log, out.Progress, out.Chunk} {
		if err := emit("for " + in.Name); err != nil {
			return program.Result{}, err
		}
	}
	return program.Result{
		Output:      map[string]string{"text": "hello " + in.Name},
		SideEffects: []program.SideEffect{{Kind: "say", Target: "air://room", Bytes: 5}},
		Warnings:    []string{"cold"},
	}, nil
}

func lookUp(_ context.Context, _ *program.Call, in greeting, _ *program.Stream) (program.Result, error) {
	if in.Name == "nobody" {
		return program.Result{}, fmt.Errorf("look up: %w", program.ErrAbsent)
	}
	return program.Result{Output: in.Name}, nil
}

func TestRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ request, want string }{
		"output": {
			`{"op":"execute","fn":"greet","input":{"name":"Ada"},"later_member":1}`,
			`{"type":"log","data":"for Ada"}
{"type":"progress","data":"for Ada"}
{"type":"chunk","data":"for Ada"}
{"type":"output","output":{"text":"hello Ada"},"side_effects":[{"kind":"say","target":"air://room","bytes":5}],` +
				`"warnings":["cold"]}` + "\n"},
		"error": {
			`{"op":"execute","fn":"greet","input":{"name":"nobody"}}`,
			`{"type":"error","error":{"code":"unknown_name","message":"nobody of that name","details":{"a":1,"b":2},` +
				`"effect":"none","retry_after_ms":1500}}` + "\n"},
		"an effect that was not said is unknown": {
			`{"op":"execute","fn":"greet","input":{"name":"vague"}}`,
			`{"type":"error","error":{"code":"unknown_name","message":"who?","effect":"unknown"}}
`},
		"dry run": {
			`{"op":"execute","fn":"rehearse","input":{"name":"Ada"},"dry_run":true}`,
			`{"type":"output","output":true,"side_effects":[],"warnings":[]}
`},
		"lookup finds": {
			`{"op":"lookup","fn":"greet","input":{"name":"Ada"}}`,
			`{"type":"output","output":"Ada","side_effects":[],"warnings":[]}
`},
		"lookup finds nothing": {
			`{"op":"lookup","fn":"greet","input":{"name":"nobody"}}`,
			`{"type":"absent"}
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout bytes.Buffer
			if err := program.Run(t.Context(), greeter(), strings.NewReader(test.request), &stdout); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, stdout.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is no declared error must not look like one: there is no terminal line, only a fault.
func TestRunFault(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stdin io.Reader
		want  string
	}{
		"nothing":            {strings.NewReader(""), "read request"},
		"no JSON":            {strings.NewReader("greet Ada"), "read request"},
		"two requests":       {strings.NewReader(`{"op":"execute"}{"op":"execute"}`), "read request"},
		"name twice":         {strings.NewReader(`{"op":"execute","op":"lookup"}`), "duplicate"},
		"too long":           {io.LimitReader(endless{}, program.MaxRequest+1), "longer than"},
		"unreadable":         {iotest.ErrReader(errFault), "a fault"},
		"undeclared failure": {strings.NewReader(`{"op":"execute","fn":"greet","input":{"name":"fault"}}`), "a fault"},
		"output too long":    {strings.NewReader(`{"op":"execute","fn":"greet","input":{"name":"long"}}`), "line too long"},
		"absent but no lookup": {
			strings.NewReader(`{"op":"execute","fn":"greet","input":{"name":"absent"}}`), "nothing committed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout bytes.Buffer
			err := program.Run(t.Context(), greeter(), test.stdin, &stdout)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
			if stdout.Len() > 0 {
				t.Errorf("wrote %q", stdout.String())
			}
		})
	}
}

// A program that runs no function for a call says so: the call has no effect.
func TestNotRun(t *testing.T) {
	t.Parallel()
	const undecoded = `input_undecoded","message":"decode the input: `
	const unserved = `call_unserved","message":"the program has `
	for request, says := range map[string]string{
		`{"op":"execute","fn":"greet","input":{"nom":"Ada"}}`: undecoded,
		`{"op":"execute","fn":"greet"}`:                       undecoded,
		`{"op":"execute","fn":"shout"}`:                       unserved + `no function \"shout\"`,
		`{"op":"undo","fn":"greet"}`:                          unserved + `no operation \"undo\"`,
		`{"op":"lookup","fn":"rehearse"}`:                     unserved + `no lookup of function \"rehearse\"`,
		`{"op":"execute","fn":"greet","dry_run":true}`:        unserved + `no dry run of function \"greet\"`,
	} {
		var stdout bytes.Buffer
		err := program.Run(t.Context(), greeter(), strings.NewReader(request), &stdout)
		said := stdout.String()
		if err != nil || !strings.HasPrefix(said, `{"type":"error","error":{"code":"`+says) ||
			!strings.Contains(said, `"effect":"none"`) {
			t.Errorf("%s: %s, %v", request, said, err)
		}
	}
}

// endless is spaces for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// broken is a pipe whose reader is gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errFault }

func TestRunReportsLostReader(t *testing.T) {
	t.Parallel()
	request := `{"op":"execute","fn":"greet","input":{"name":"Ada"}}`
	if err := program.Run(t.Context(), greeter(), strings.NewReader(request), broken{}); !errors.Is(err, errFault) {
		t.Errorf("error is %v", err)
	}
}

func TestContextEndsBeforeDeadline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ left, reserve time.Duration }{
		"far":  {time.Hour, 200 * time.Millisecond},
		"near": {time.Second, 100 * time.Millisecond},
		"past": {-time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				deadline := time.Now().Add(test.left)
				var got time.Time
				tool := program.Tool{"f": {Execute: func(ctx context.Context, _ *program.Call, _ *program.Stream) (program.Result,
					error) {
					got, _ = ctx.Deadline()
					return program.Result{}, nil
				}}}
				request := fmt.Sprintf(`{"op":"execute","fn":"f","deadline_unix_ms":%d}`, deadline.UnixMilli())
				if err := program.Run(t.Context(), tool, strings.NewReader(request), io.Discard); err != nil {
					t.Fatal(err)
				}
				if reserve := deadline.Sub(got); reserve != test.reserve {
					t.Errorf("the context ends %v before the deadline, want %v", reserve, test.reserve)
				}
			})
		})
	}
}

// A function that stops at the deadline lets the executor end the program: the call then ends because its time was
// over, and not because the program failed. It waits for no more than that.
func TestFaultAtDeadline(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"of the context": nil, "of its own": errFault} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tool := program.Tool{"f": {Execute: func(ctx context.Context, _ *program.Call, _ *program.Stream) (program.Result,
					error) {
					<-ctx.Done()
					if fault != nil {
						return program.Result{}, fault
					}
					return program.Result{}, ctx.Err()
				}}}
				for signalled, want := range map[bool]time.Duration{true: time.Minute, false: time.Minute + 200*time.Millisecond} {
					begun := time.Now()
					request := fmt.Sprintf(`{"op":"execute","fn":"f","deadline_unix_ms":%d}`, begun.Add(time.Minute).UnixMilli())
					ctx, stop := context.WithCancel(t.Context())
					if signalled {
						time.AfterFunc(time.Minute, stop)
					}
					err := program.Run(ctx, tool, strings.NewReader(request), io.Discard)
					if took := time.Since(begun); err == nil || took != want {
						t.Errorf("signalled %t: it ends after %v with %v", signalled, took, err)
					}
					stop()
				}
			})
		})
	}
}

func TestContextWithoutDeadline(t *testing.T) {
	t.Parallel()
	tool := program.Tool{"f": {Execute: func(ctx context.Context, _ *program.Call, _ *program.Stream) (program.Result,
		error) {
		_, limited := ctx.Deadline()
		return program.Result{Output: limited}, nil
	}}}
	var stdout bytes.Buffer
	if err := program.Run(t.Context(), tool, strings.NewReader(`{"op":"execute","fn":"f"}`), &stdout); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stdout.String(), `{"type":"output","output":false`) {
		t.Error(stdout.String())
	}
}

func TestWritten(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	out := program.NewStream(&stdout)
	for range 3 {
		if err := out.Chunk("ü"); err != nil {
			t.Fatal(err)
		}
	}
	if out.Written() != int64(stdout.Len()) || stdout.Len() == 0 {
		t.Errorf("%d of %d bytes", out.Written(), stdout.Len())
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	const around = len(`{"type":"output","output":"","side_effects":[],"warnings":[]}` + "\n")
	for size, want := range map[int]bool{0: true, program.MaxLine - around: true, program.MaxLine - around + 1: false} {
		res := program.Result{Output: strings.Repeat("x", size)}
		if got := program.Fits(res); got != want {
			t.Errorf("%d bytes: %v", size, got)
		}
	}
}

// FuzzRun feeds arbitrary requests: the program answers or reports a fault, and never both.
func FuzzRun(f *testing.F) {
	f.Add(`{"op":"execute","fn":"greet","input":{"name":"Ada"},"deadline_unix_ms":-1}`)
	f.Add(`{"op":"lookup","fn":"greet","input":{"name":"nobody"},"fence":18446744073709551615}`)
	f.Add(`{"op":"execute","fn":"greet","input":null,"attempt":1e2}`)
	f.Fuzz(func(t *testing.T, request string) {
		var stdout bytes.Buffer
		err := program.Run(t.Context(), greeter(), strings.NewReader(request), &stdout)
		if ended := strings.HasSuffix(stdout.String(), "}\n"); ended == (err != nil) {
			t.Errorf("error %v after %q", err, stdout.String())
		}
	})
}
