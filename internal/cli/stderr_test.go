package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// unread returns a pipe that is closed at the end of the test.
func unread(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	return read, write
}

// Lines that nothing reads delay nobody. Later they arrive whole and in order, with the number of those left out.
func TestStderrIsRead(t *testing.T) {
	read, write := unread(t)
	env, end := cli.Env{Stderr: write}.Unblocked()
	const lines, size = 4000, 1000
	padding := strings.Repeat("x", size)
	for i := range lines {
		if _, err := fmt.Fprintf(env.Stderr, "%d %s\n", i, padding); err != nil {
			t.Fatal(err)
		}
	}
	got, lost, over := 0, 0, make(chan struct{})
	go func() {
		defer close(over)
		for in := bufio.NewScanner(read); got+lost < lines && in.Scan(); {
			var note struct {
				Level string
				Lines int
			}
			if json.Unmarshal(in.Bytes(), &note) == nil && note.Level == "warn" {
				lost += note.Lines
				continue
			}
			if want := fmt.Sprint(got+lost, " ", padding); in.Text() != want {
				t.Errorf("line %d is %.20s", got+lost, in.Text())
			}
			got++
		}
	}()
	select {
	case <-over:
		if got < 1000 || lost < 1000 {
			t.Errorf("%d lines were read, and %d are said to be left out, of %d", got, lost, lines)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the log does not say what it has left out")
	}
	end()
	if _, err := fmt.Fprintln(env.Stderr, "after the end"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || line != "after the end\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// A process whose standard error is not read ends all the same, and may write to it to the last.
func TestStderrIsNeverRead(t *testing.T) {
	_, write := unread(t)
	env, end := cli.Env{Stderr: write}.Unblocked()
	for range 200 {
		_, _ = io.WriteString(env.Stderr, strings.Repeat("x", 1000)+"\n")
	}
	started := time.Now()
	end()
	_, _ = io.WriteString(env.Stderr, "the last word\n")
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("the end took %s", took)
	}
}
