package demo

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Tools that the scenes call.
const (
	fetchTool   = "web.fetch"
	cleanTool   = "transcript.clean"
	sleeperTool = "demo.sleeper"
)

//go:embed sleeper
var sleeper embed.FS

// layTools writes to dir the shipped tools that the scenes call, and the demo's own tool.
func layTools(dir, shipped, self string) error {
	for _, id := range []string{fetchTool, cleanTool} {
		folder := subjects.Token(id)
		from := filepath.Join(shipped, folder)
		if _, err := os.Stat(filepath.Join(from, "tool.yaml")); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the tool %s is not in %s: run the demo from the source folder, or name the tools folder with "+
				"--tools", id, shipped)
		}
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(from)); err != nil {
			return fmt.Errorf("copy tool %s: %w", id, err)
		}
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
	text := strings.Replace(string(manifest), "[./web-fetch]", "[./web-fetch, --allow-network, 127.0.0.1/32]", 1)
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
