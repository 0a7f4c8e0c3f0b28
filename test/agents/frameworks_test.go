package agents

import (
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var frameworks = flag.Bool("frameworks", false, "run agents of eight frameworks, which run.sh --frameworks installs")

// every has the frameworks, as conduct.py calls them.
var every = []string{
	"openai-agents", "langchain", "pydantic-ai", "google-adk", "llama-index", "mcp-agent", "ai-sdk", "mastra",
}

// The proxy ends connections on which nothing has come for this time, and the gateway is faster.
const (
	idleMost = 6 * time.Second
	hold     = "1s"
	comment  = "1.5s"
)

// slowStart is how long the slow servers need to start, in seconds.
const slowStart = "40"

// TestFrameworksBriefly lets agents of two frameworks follow a plan, beside the two of TestAgents.
func TestFrameworksBriefly(t *testing.T) {
	if *installed == "" || *frameworks {
		t.Log("make mcp-agents runs this with the frameworks")
		return
	}
	w := bare(t, *installed)
	w.Servers = map[string]server{"shop": w.programs(t)["shop"], "depot": w.depot(t, "0")}
	w.serve(t)
	for _, name := range []string{"pydantic-ai", "google-adk"} {
		t.Run(name, func(t *testing.T) { w.conduct(t, "plan", name) })
	}
}

// TestFrameworks runs agents of eight frameworks with a stand-in for the API of a model, over both transports.
func TestFrameworks(t *testing.T) {
	if !*frameworks {
		t.Log("make nightly runs this with the frameworks")
		return
	}
	w := bare(t, *installed)
	w.Servers = map[string]server{"shop": w.programs(t)["shop"], "depot": w.depot(t, "0")}
	w.serve(t)
	for _, scenario := range []string{"plan", "large"} {
		for _, name := range every {
			t.Run(scenario+"/"+name, func(t *testing.T) { w.conduct(t, scenario, name) })
		}
	}
	t.Run("idle", w.throughProxy)
	t.Run("cut", w.cut)
	for _, name := range []string{"openai-agents", "pydantic-ai"} { // they list again when the bus says so
		t.Run("late/"+name, func(t *testing.T) { w.conduct(t, "late", name) })
	}
}

// TestFrameworksSlowly lets two agents call servers that need 40 s to start, at the import and at the executor.
func TestFrameworksSlowly(t *testing.T) {
	if !*frameworks {
		t.Log("make nightly runs this with the frameworks")
		return
	}
	w := bare(t, *installed)
	w.Servers = map[string]server{"slowstdio": w.depot(t, slowStart), "slowhttp": w.depot(t, slowStart)}
	w.serve(t)
	t.Run("stdio", func(t *testing.T) { w.conduct(t, "slow", "pydantic-ai", "stdio") })
	t.Run("http", func(t *testing.T) { w.conduct(t, "slow", "ai-sdk", "http") })
}

// depot is a server with large and late results, which starts after some seconds.
func (w *world) depot(t *testing.T, start string) server {
	t.Helper()
	s := w.programs(t)["shop"]
	s.Args = []string{filepath.Join(filepath.Dir(s.Args[0]), "depot.py")}
	s.Env = maps.Clone(s.Env)
	s.Env["DEPOT_FOLDER"], s.Env["DEPOT_START"] = w.Direct, start
	return s
}

// conduct runs an agent of a framework through a scenario.
func (w *world) conduct(t *testing.T, scenario, name string, more ...string) {
	t.Helper()
	args := slices.Concat([]string{scenario, name}, more)
	w.within(t, 15*time.Minute, w.python("two"), filepath.Join("frameworks", "conduct.py"), args...)
}

// throughProxy runs the agents through a proxy that ends idle connections.
func (w *world) throughProxy(t *testing.T) {
	held := *w
	held.Door = throughIdle(t, w.start(t, "held", "gateway", "mcp", "--search-only=false", "--listen", "127.0.0.1:0",
		"--server", w.Bus, "--http-hold", hold, "--http-comment", comment), idleMost)
	for _, name := range every {
		t.Run(name, func(t *testing.T) { held.conduct(t, "idle", name) })
	}
}

// cut cuts 600 calls of an official client in the middle of their answers.
func (w *world) cut(t *testing.T) {
	w.within(t, 10*time.Minute, w.Node, filepath.Join("frameworks", "cuts.mjs"), throughCuts(t, w.Door))
}
