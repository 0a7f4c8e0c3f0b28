package release

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/tools"
)

// compose is the part of deploy/compose.yaml that a test needs to start the services without a container engine.
type compose struct {
	Services map[string]service
}

type service struct {
	Entrypoint []string
	Volumes    []string
	Deploy     struct{ Replicas int }
}

// testCompose starts the services of deploy/compose.yaml as processes: with the programs in built, and with the host's
// files in the place of volumes. It makes a call.
func testCompose(t *testing.T, built string) {
	var file compose
	if err := yaml.Unmarshal(read(t, filepath.Join(root, "deploy/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	of := processtest.Programs{Dir: built, Tools: filepath.Join(t.TempDir(), "tools")}
	if err := tools.Write(of.Tools, of.Toolbus(), "dev", "tool"); err != nil {
		t.Fatal(err)
	}
	d := processtest.Prepare(t, processtest.Options{Programs: of, Profile: "single-durable", TLS: true})
	for _, dir := range []string{"executor", "metrics"} {
		if err := os.MkdirAll(filepath.Join(d.Dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.Dir, "metrics/token"), []byte(metricsToken), 0o600); err != nil {
		t.Fatal(err)
	}
	host := map[string]string{"./deployment": d.Dir, "./tools": of.Tools}
	env := append(os.Environ(), "TOOLBUS_URL="+d.URL, "TOOLBUS_CREDENTIALS=", "TOOLBUS_CONTEXT=",
		"XDG_CONFIG_HOME="+t.TempDir())
	start := func(name, ready string) {
		words := file.Services[name].command(host)
		cmd := exec.Command(filepath.Join(built, words[0]), words[1:]...)
		cmd.Env = env
		p := processtest.Launch(t, cmd)
		_, metrics, _ := strings.Cut(p.Await(t, "metrics: "), "metrics: ")
		p.Await(t, ready)
		scrape(t, metrics)
	}
	if words := file.Services["nats"].command(host); !slices.Equal(words, []string{"nats-server", "-c", d.Conf(0)}) {
		t.Fatalf("the server is started by %q", words)
	}
	d.Serve(0)
	for i := range file.Services["dispatcher"].Deploy.Replicas {
		start("dispatcher", "is serving")
		if i == 0 { // the others know the policy when they serve; one that serves learns of it within a second
			d.AllowAll()
		}
	}
	operator := file.Services["toolbus"].command(host)
	issue := func(name string, args ...string) {
		args = slices.Concat(operator[1:], []string{"credentials", "issue", "--out", filepath.Join(d.Dir, name)}, args)
		output(t, built, env, filepath.Join(built, operator[0]), args...)
	}
	issue("executor/executor.token", "--role", "executor", "--actor", "executor://1", "--pool", "default")
	start("executor", "works for pool")
	issue("agent.token", "--actor", "agent://a")
	said := output(t, built, env, of.Toolbus(), append(d.Access(), "--credentials", filepath.Join(d.Dir, "agent.token"),
		"call", "transcript.clean", "--input", `{"text":"[00:01] Anna: So, um, the the plan."}`)...)
	if !strings.Contains(said, "Anna: So, the plan.") {
		t.Errorf("the call says %s", said)
	}
}

// metricsToken is the token that those who read metrics must send.
const metricsToken = "0123456789abcdef"

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, from string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{metricsToken: http.StatusOK, "": http.StatusUnauthorized} {
		req.Header.Set("Authorization", "Bearer "+token)
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != want {
			t.Errorf("%s with the token %q: %d", from, token, r.StatusCode)
		}
	}
}

// command returns the command of a service. Files in its volumes are those of the host.
func (s service) command(host map[string]string) (words []string) {
	for _, word := range s.Entrypoint {
		for _, volume := range s.Volumes {
			from, to, _ := strings.Cut(volume, ":")
			to = strings.TrimSuffix(to, ":ro")
			name, below, _ := strings.Cut(strings.TrimPrefix(from, "./"), "/")
			if flag, at, found := strings.Cut(word, to); found && (at == "" || at[0] == '/') {
				word = flag + filepath.Join(host["./"+name], below) + at
				break
			}
		}
		words = append(words, strings.Replace(word, "0.0.0.0:9464", "0.0.0.0:0", 1)) // each container has its own
	}
	return words
}
