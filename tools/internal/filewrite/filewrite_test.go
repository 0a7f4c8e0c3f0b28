package filewrite

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
)

func write(t *testing.T, root string, in Input) programtest.Answer {
	t.Helper()
	return programtest.Run(t, Tool(root), programtest.NewCall(t, "write", in))
}

// wantFailure demands an error of that code and effect, and that no temporary file is left.
func wantFailure(t *testing.T, root string, answer programtest.Answer, code string, effect program.Effect) {
	t.Helper()
	failure := answer.Terminal().Error
	if failure == nil || failure.Code != code || failure.Effect != effect {
		t.Errorf("answer is %s, want %s with effect %s", answer.Raw, code, effect)
	}
	if effect == program.EffectNone {
		wantNoLeavings(t, root)
	}
}

func wantNoLeavings(t *testing.T, root string) {
	t.Helper()
	if names, err := filepath.Glob(filepath.Join(root, "*", temporaryPrefix+"*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %q, %v", names, err)
	}
	if names, err := filepath.Glob(filepath.Join(root, temporaryPrefix+"*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %q, %v", names, err)
	}
}

func TestMode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before os.FileMode // 0: no file
		mode   string
		want   os.FileMode
	}{
		"new":              {0, "", 0o644},
		"new with mode":    {0, "0660", 0o660},
		"keeps its mode":   {0o751, "", 0o751},
		"gets another one": {0o644, "0600", 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			path := filepath.Join(root, "file")
			if test.before != 0 {
				if err := os.WriteFile(path, nil, test.before); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, test.before); err != nil {
					t.Fatal(err)
				}
			}
			write(t, root, Input{Path: "file", Mode: test.mode})
			info, err := os.Stat(path)
			if err != nil || info.Mode() != test.want {
				t.Errorf("mode is %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestSymlinks plants links of every kind inside the root and a file outside that none may reach.
func TestSymlinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, test := range map[string]struct {
		target, path string
		code         string // "" when the write succeeds
	}{
		"folder outside":         {outside, "link/file", "path_outside"},
		"folder outside by dots": {"../" + filepath.Base(outside), "link/file", "path_outside"},
		"folder inside":          {"real", "link/file", ""},
		"absolute but inside":    {"", "link/file", "path_outside"},
		"file outside":           {filepath.Join(outside, "secret"), "link", ""}, // the link itself is replaced
		"loop":                   {"link", "link/file", "not_directory"},
		"dangling":               {"nowhere", "link/file", "not_directory"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if test.target == "" {
				test.target = filepath.Join(root, "real")
			}
			if err := os.Mkdir(filepath.Join(root, "real"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(test.target, filepath.Join(root, "link")); err != nil {
				t.Fatal(err)
			}
			answer := write(t, root, Input{Path: test.path, Content: "x"})
			if test.code != "" {
				wantFailure(t, root, answer, test.code, program.EffectNone)
				if _, err := os.Readlink(filepath.Join(root, "link")); err != nil {
					t.Errorf("the link is gone: %v", err)
				}
			} else if programtest.ReadFile(t, filepath.Join(root, test.path)) != "x" {
				t.Error("not written")
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
				t.Errorf("outside are %v, %v", entries, err)
			}
		})
	}
}

// TestRenameFails holds what is said of the effect when the last step fails.
func TestRenameFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		code   string
		effect program.Effect
	}{
		"refused":   {syscall.EACCES, "not_writable", program.EffectNone},
		"disk full": {syscall.ENOSPC, "disk_full", program.EffectNone},
		"busy":      {syscall.EBUSY, "io_error", program.EffectNone},
		"disk dies": {syscall.EIO, "io_error", program.EffectUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			failing := &tool{root: root, rename: func(_ *os.Root, from, to string) error {
				return &os.LinkError{Op: "renameat", Old: from, New: to, Err: test.err}
			}}
			tool := program.Tool{"write": {Execute: program.Typed(failing.execute)}}
			answer := programtest.Run(t, tool, programtest.NewCall(t, "write", Input{Path: "a/b/c", Content: "x"}))
			wantFailure(t, root, answer, test.code, test.effect)
			_, err := os.Stat(filepath.Join(root, "a"))
			if gone := os.IsNotExist(err); gone != (test.effect == program.EffectNone) {
				t.Errorf("new folders are gone: %v", gone)
			}
		})
	}
}

func TestStopped(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	data, err := json.Marshal(programtest.NewCall(t, "write", Input{Path: "a/b", Content: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	if err := program.Run(programtest.Cancelled(t), Tool(root), bytes.NewReader(data), &stdout); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), `"code":"timeout"`) || !strings.Contains(stdout.String(), `"effect":"none"`) {
		t.Error(stdout.String())
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestClassify covers what a test cannot bring about on every machine, such as a read-only disk.
func TestClassify(t *testing.T) {
	t.Parallel()
	for errno, code := range map[syscall.Errno]string{
		syscall.EROFS: "not_writable", syscall.EPERM: "not_writable", syscall.EACCES: "not_writable",
		syscall.EDQUOT: "disk_full", syscall.EMFILE: "io_error", syscall.ENAMETOOLONG: "io_error",
	} {
		err := classify(&os.PathError{Op: "open", Path: "/the/root/x", Err: errno}, program.EffectNone)
		if got := err.(*program.Error); got.Code != code || strings.Contains(got.Message, "/the/root") {
			t.Errorf("%v: %+v", errno, got)
		}
	}
}

// TestLeavings holds that a run removes what earlier runs of its key left, and nothing else.
func TestLeavings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	call := programtest.NewCall(t, "write", Input{Path: "file", Content: "x"})
	name := func(key string, fence uint64) string {
		return filepath.Join(root, temporary(&program.Call{IdempotencyKey: key, Fence: fence}))
	}
	earlier, later, other := name(call.IdempotencyKey, 9), name(call.IdempotencyKey, 17), name("another key", 1)
	for _, path := range []string{earlier, later, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call.Fence = 16
	programtest.Run(t, Tool(root), call)
	for path, want := range map[string]bool{earlier: false, later: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v", filepath.Base(path), err == nil)
		}
	}
}

// TestReadersSeeWholeFiles writes one path from many calls at once while another goroutine reads.
func TestReadersSeeWholeFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const size = 64 << 10
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := range 20 {
				call := programtest.NewCall(t, "write", Input{Path: "file", Content: strings.Repeat(string(rune('a'+i)), size)})
				call.IdempotencyKey, call.Fence = string(rune('a'+i)), uint64(j)
				programtest.Run(t, Tool(root), call)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		writers.Wait()
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		data, err := os.ReadFile(filepath.Join(root, "file"))
		if err == nil && (len(data) != size || strings.Count(string(data), string(data[:1])) != size) {
			t.Fatalf("a reader saw %d bytes of a mixture", len(data))
		}
	}
	wantNoLeavings(t, root)
}

// FuzzPath holds that no path reaches out of the root, where a file waits to be overwritten.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a", "../secret", "/secret", "a/../../secret", "in/../../secret", "out/secret",
		"./a/./b", "a\x00b", "…/..", "a/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		base := t.TempDir()
		root, secret := filepath.Join(base, "root"), filepath.Join(base, "secret")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..", filepath.Join(root, "out")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(secret, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		call := programtest.NewCall(t, "write", Input{Path: strings.ToValidUTF8(path, "?"), Content: "x"})
		programtest.Run(t, Tool(root), call)
		entries, err := os.ReadDir(base)
		if err != nil || len(entries) != 2 || programtest.ReadFile(t, secret) != "kept" {
			t.Errorf("%q reached out: %v, %v", path, entries, err)
		}
	})
}
