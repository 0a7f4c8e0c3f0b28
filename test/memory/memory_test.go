// Package memory measures what large inputs cost a dispatcher, which runs in a process of its own and tells the most
// that its heap held.
package memory

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

const (
	inputs = 6
	size   = 50_000_000
	// patience is long: nothing is measured in time, and with the race detector a busy machine is ten times slower.
	patience = 10 * time.Minute
	// bound is what six inputs may take at their peak: the room that there is, what lies about until it is collected, and
	// what a dispatcher needs by itself: 153 MB, and half as much again. Held all at once they would be 300 MB, without
	// what they come in.
	bound = 230_000_000
)

// TestMain turns this binary into the dispatcher that is measured.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "dispatcher" {
		if err := dispatch(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func tools() (*toolbus.Toolset, error) {
	t := toolbus.NewToolset()
	return t, toolbus.Add(t, toolbus.Tool{ID: "length", Class: toolbus.Pure, MaxTimeout: patience},
		func(_ context.Context, _ *toolbus.Run, in string) (int, error) { return len(in), nil })
}

// dispatch says when it serves, does so until standard input ends, and then says the most bytes that the heap held.
func dispatch(url string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	conn, err := toolbus.Connect(ctx, url, toolbus.Options{})
	if err != nil {
		return err
	}
	defer conn.Close()
	t, err := tools()
	if err != nil {
		return err
	}
	d, err := conn.Dispatcher(t, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(string) { fmt.Println("ready") },
	})
	if err != nil {
		return err
	}
	peak := make(chan uint64, 1)
	go func() { peak <- watch(ctx) }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	err = d.Run(ctx)
	fmt.Println(<-peak)
	return err
}

// watch returns the most that the heap held until ctx ended, garbage included.
func watch(ctx context.Context) (peak uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		metrics.Read(sample)
		peak = max(peak, sample[0].Value.Uint64())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return peak
		}
	}
}

// measured is a dispatcher in a process of its own.
type measured struct {
	stdin io.Closer
	lines *bufio.Scanner
}

func start(t *testing.T, url string) *measured {
	t.Helper()
	cmd := exec.Command(os.Args[0], "dispatcher", url)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, as a rule
		_ = cmd.Wait()
	})
	m := &measured{stdin, bufio.NewScanner(stdout)}
	if !m.lines.Scan() || m.lines.Text() != "ready" {
		t.Fatalf("the dispatcher says %q", m.lines.Text())
	}
	return m
}

// peak ends the dispatcher.
func (m *measured) peak(t *testing.T) (bytes int64) {
	t.Helper()
	_ = m.stdin.Close()
	m.lines.Scan()
	bytes, err := strconv.ParseInt(m.lines.Text(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Six inputs of 50 MB at once take a dispatcher no more than one after another.
func TestSixLargeInputs(t *testing.T) {
	url := natstest.Start(t).URL
	d := start(t, url)
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lengths, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	e, err := conn.Executor(lengths, toolbus.ExecutorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = e.Run(t.Context()) }() // ends with the connection
	client, err := conn.Client(toolbus.ClientOptions{Tenant: "default", Actor: "agent://memory"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var calls errgroup.Group
	for n := range inputs {
		in := strconv.Itoa(n) + strings.Repeat("x", size)
		calls.Go(func() error {
			got, err := toolbus.Invoke[int](t.Context(), client, toolbus.Call{Tool: "length", Timeout: patience}, in)
			if err == nil && got != len(in) {
				err = fmt.Errorf("a text of %d has length %d", len(in), got)
			}
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Fatal(err)
	}
	peak := d.peak(t)
	t.Logf("at most %d MB", peak/1e6)
	if peak > bound {
		t.Errorf("the heap held %d MB, want %d at most", peak/1e6, bound/1_000_000)
	}
}
