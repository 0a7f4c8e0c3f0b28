package demo

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tools"
)

// Tools that the scenes call.
const (
	fetchTool   = "web.fetch"
	cleanTool   = "transcript.clean"
	sleeperTool = "demo.sleeper"
)

//go:embed sleeper
var sleeper embed.FS

// layTools writes to dir the shipped tools and the demo's own tool. The program of all of them is self.
func layTools(dir, self string) error {
	if err := tools.Write(dir, self, "dev", "tool"); err != nil {
		return fmt.Errorf("write the shipped tools: %w", err)
	}
	if err := allowSite(filepath.Join(dir, subjects.Token(fetchTool), "tool.yaml")); err != nil {
		return err
	}
	return laySleeper(filepath.Join(dir, subjects.Token(sleeperTool)), self)
}

// allowSite changes the manifest of web.fetch so that it may fetch the demo's site, whose address is not public.
func allowSite(file string) error {
	manifest, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := strings.Replace(string(manifest), `"web-fetch"]`, `"web-fetch", --allow-network, 127.0.0.1/32]`, 1)
	return os.WriteFile(file, []byte(text), 0o600)
}

// laySleeper writes the demo's own tool, whose program is self.
func laySleeper(dir, self string) error {
	files, err := fs.Sub(sleeper, "sleeper")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return fmt.Errorf("write tool %s: %w", sleeperTool, err)
	}
	manifest, err := fs.ReadFile(files, "tool.yaml")
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(self) // a JSON string is a valid YAML string
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(manifest), `"{{self}}"`, string(quoted))
	return os.WriteFile(filepath.Join(dir, "tool.yaml"), []byte(text), 0o600)
}
