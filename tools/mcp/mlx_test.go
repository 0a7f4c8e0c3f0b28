//go:build linux

package mcptools_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// model is a server of a model, which does as its name says. It returns its exit status.
func model(name, port string) int {
	switch filepath.Base(name) {
	case "unknown":
		return 66
	case "broken":
		return 3
	case "deaf":
		if os.WriteFile(name, nil, 0o600) != nil { // which says that it runs
			return 4
		}
		select {}
	case "parent": // has a child that listens, and both do not care for SIGTERM
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command(os.Args[0], "model", "stubborn", port)
		if child.Start() != nil {
			return 4
		}
		_ = child.Wait()
		return 0
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return 5
	}
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d %s", os.Getpid(), strings.Join(os.Environ(), " "))
		if r.URL.Path == "/die" {
			_ = http.NewResponseController(w).Flush()
			syscall.Exit(0)
		}
	}))
	return 0
}

// command is what mlxctl starts: this binary.
func command(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "MLXCTL_COMMAND=" + self + " model {model} {port}"
}

// ports are those that tests may still take, in an order that no two runs on one machine share.
var ports = struct {
	sync.Mutex
	left []int
}{left: rand.Perm(40)}

// port is a free one that no other test takes.
func port(t *testing.T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for len(ports.left) > 0 {
		one := 8100 + ports.left[0]
		ports.left = ports.left[1:]
		if !taken(one) {
			return one
		}
	}
	t.Fatal("no port from 8100 to 8139 is free")
	return 0
}

func taken(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err == nil {
		_ = l.Close()
	}
	return err != nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ask asks a model what it knows: its process id and its environment.
func ask(t *testing.T, port int, path string) (pid int, environ string) {
	t.Helper()
	resp, err := http.Get("http://" + address(port) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var said strings.Builder
	_, _ = fmt.Fscan(resp.Body, &pid)
	_ = resp.Write(&said)
	return pid, said.String()
}

func load(model string, port int) request {
	return request{tool: "mlx.load", input: map[string]any{"model": model, "port": port}}
}

func unload(port int) request {
	return request{tool: "mlx.unload", input: map[string]any{"port": port}}
}

func (r request) under(key string) request {
	r.key = key
	return r
}

type answer struct {
	OK      bool
	Message string
	Port    int
	Model   string
}

// until waits for half a minute at the most until something is so.
func until(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if so() {
			return
		}
		<-tick.C
	}
	t.Fatal("it is never so")
}

// gone holds that nothing is left of a process and its port is free.
func gone(t *testing.T, pid, port int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d is there: %v", pid, err)
	}
	if taken(port) {
		t.Errorf("port %d is taken", port)
	}
}

func TestLoadAndUnload(t *testing.T) {
	t.Parallel()
	s, p := start(t, command(t), "HOME=/home-of-the-test"), port(t)
	got := gets[answer](s, load("org/a model", p).under("key-1"))
	if !got.OK || got.Port != p || got.Model != "org/a model" {
		t.Errorf("loaded %+v", got)
	}
	first, environ := ask(t, p, "/")
	if !strings.Contains(environ, "HOME=/home-of-the-test") || strings.Contains(environ, "MLXCTL_") {
		t.Errorf("its environment is %s", environ)
	}
	// The same call again, as after an answer that was lost, and another one.
	gets[answer](s, load("org/a model", p).under("key-1"))
	s.fails(load("org/a model", p).under("key-2"), "port_busy", "model")
	if again, _ := ask(t, p, "/"); again != first {
		t.Errorf("process %d became %d", first, again)
	}
	if got := gets[answer](s, unload(p).under("key-3")); !got.OK || got.Port != p {
		t.Errorf("unloaded %+v", got)
	}
	gone(t, first, p)
	s.fails(unload(p).under("key-4"), "not_listening", "nothing")

	// A model that was loaded meanwhile is not ended by the same call again.
	gets[answer](s, load("other", p).under("key-5"))
	gets[answer](s, unload(p).under("key-3"))
	second, _ := ask(t, p, "/")
	gets[answer](s, unload(p).under("key-6"))
	gone(t, second, p)
}

// Models with children, and those that ignore SIGTERM, end all the same.
func TestUnloadStubborn(t *testing.T) {
	t.Parallel()
	s, p := start(t, command(t)), port(t)
	gets[answer](s, load("parent", p))
	pid, _ := ask(t, p, "/")
	gets[answer](s, unload(p))
	gone(t, pid, p)
}

func TestLoadFails(t *testing.T) {
	t.Parallel()
	models := t.TempDir()
	if err := os.Mkdir(filepath.Join(models, "here"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, p := start(t, command(t)), port(t)
	for _, wrong := range []int{0, 80, 8099, 8140, -8100} {
		s.fails(load("m", wrong), "invalid_port", "range")
		s.fails(unload(wrong), "invalid_port", "range")
	}
	s.fails(load("unknown", p), "model_not_found", "command")
	s.fails(load("--option", p), "model_not_found", "name")
	if broken := s.fails(load("broken", p), "launch_failed", "ended"); string(broken.Details.Extra["exit_code"]) != "3" {
		t.Errorf("it says %+v", broken.Details)
	}
	deaf := load(filepath.Join(t.TempDir(), "deaf"), p)
	deaf.within = 3 * time.Second
	s.fails(deaf, "launch_failed", "deadline")
	gets[answer](s, load("m", p)) // the port is free after each of them

	here := start(t, command(t), "MLXCTL_MODELS="+models)
	for _, name := range []string{"m", ".", "../" + filepath.Base(models), models, "here/../.."} {
		here.fails(load(name, port(t)), "model_not_found", "name")
	}
	gets[answer](here, load("here", port(t)))
	start(t).fails(load("m", port(t)), "launch_failed", "configuration")
	start(t, "MLXCTL_COMMAND=/nowhere/mlx {model}").fails(load("m", port(t)), "launch_failed", "configuration")
}

// What mlxctl has not started at a port is neither taken for a model nor ended.
func TestForeignPort(t *testing.T) {
	t.Parallel()
	s, p := start(t, command(t)), port(t)
	l, err := net.Listen("tcp", address(p))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.fails(load("m", p), "port_busy", "other")
	s.fails(unload(p), "not_listening", "nothing")
}

// A model that ends by itself leaves its port.
func TestModelEnds(t *testing.T) {
	t.Parallel()
	s, p := start(t, command(t)), port(t)
	gets[answer](s, load("m", p))
	ask(t, p, "/die")
	until(t, func() bool {
		_, failure := s.asks(unload(p))
		return failure == nil || failure.Details.ToolCode == "not_listening" // nil: it was told to end while it did
	})
	gets[answer](s, load("m", p))
}

// Of several loads of one port one succeeds.
func TestRace(t *testing.T) {
	t.Parallel()
	s, p := start(t, command(t)), port(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for i := range 4 {
		all.Go(func() {
			_, failure := s.asks(load("m", p).under(fmt.Sprint("key-", i)))
			mu.Lock()
			defer mu.Unlock()
			if failure == nil {
				outcomes["loaded"]++
			} else {
				outcomes[failure.Details.ToolCode]++
			}
		})
	}
	all.Wait()
	if outcomes["loaded"] != 1 || outcomes["port_busy"] != 3 {
		t.Errorf("outcomes are %v", outcomes)
	}
}

// However mlxctl ends, no model stays.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{
		"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL, "its input": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			install(t)
			p := port(t)
			cmd := exec.Command(filepath.Join(built, "mlxctl"))
			cmd.Env = []string{command(t), "PATH=/usr/bin:/bin"}
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
			if err != nil {
				t.Fatal(err)
			}
			result, err := session.CallTool(t.Context(), &sdk.CallToolParams{
				Name: "mlx.load", Arguments: map[string]any{"model": "parent", "port": p},
			})
			if err != nil || result.IsError {
				t.Fatal(result, err)
			}
			pid, _ := ask(t, p, "/")
			if sig != 0 {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				_ = session.Wait()
			}
			_ = session.Close()
			if sig == syscall.SIGKILL { // its supervisors do it then, which nobody waits for
				until(t, func() bool { return !taken(p) && syscall.Kill(pid, 0) != nil })
			}
			gone(t, pid, p)
		})
	}
}

// The same, of one that an executor has started, and a load that is under way is ended with it.
func TestRest(t *testing.T) {
	t.Parallel()
	s, p, other := start(t, command(t)), port(t), port(t)
	gets[answer](s, load("stubborn", p))
	pid, _ := ask(t, p, "/")
	deaf := filepath.Join(t.TempDir(), "deaf")
	ended := make(chan *envelope.Error)
	go func() {
		_, failure := s.asks(load(deaf, other))
		ended <- failure
	}()
	until(t, func() bool { _, err := os.Stat(deaf); return err == nil })
	s.adapter.Rest()
	gone(t, pid, p)
	if failure := <-ended; failure == nil {
		t.Error("a model that does not listen is loaded")
	}
}
