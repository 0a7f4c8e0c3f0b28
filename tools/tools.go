// Package tools has the shipped tools for a program that is all of them: their manifests, and the functions of their
// programs. `toolbus dev --examples` runs them so, where nobody has built the programs.
package tools

import (
	"bytes"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/filewrite"
	"github.com/seed-018f16cc/toolbus/tools/internal/textsearch"
	"github.com/seed-018f16cc/toolbus/tools/internal/transcript"
	"github.com/seed-018f16cc/toolbus/tools/internal/webpage"
)

//go:embed */tool.yaml */schema/*.json
var manifests embed.FS

// Write writes the manifests and schemas of the shipped tools to subfolders of dir, over earlier ones. Their command is
// command and the name of the program, for which [Program] returns the tool.
func Write(dir string, command ...string) error {
	return fs.WalkDir(manifests, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := manifests.ReadFile(name)
		if err == nil && path.Base(name) == "tool.yaml" {
			text, err = withCommand(text, command)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}

var ownCommand = regexp.MustCompile(`(?m)^  command: \[\./([a-z-]+)\]$`)

// withCommand replaces the command of a manifest, the program in the tool's folder.
func withCommand(manifest []byte, command []string) ([]byte, error) {
	own := ownCommand.FindSubmatch(manifest)
	if own == nil {
		return nil, fmt.Errorf("a line that matches %s is missing", ownCommand)
	}
	words, err := json.Marshal(append(slices.Clone(command), string(own[1]))) // a JSON list is a YAML list
	return bytes.Replace(manifest, own[0], append([]byte("  command: "), words...), 1), err
}

// Program returns the tool of the program name, one of a shipped tool, with the arguments and the environment that the
// program has.
func Program(name string, args []string, getenv func(string) string) (program.Tool, error) {
	switch name {
	case "fs-write":
		return filewrite.Tool(getenv(filewrite.RootVariable)), nil
	case "text-search":
		return textsearch.Tool(getenv(textsearch.RootVariable)), nil
	case "transcript-clean":
		return transcript.Tool(nil), nil
	case "web-fetch":
		var allowed address.Networks
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		flags.Var(&allowed, address.Flag, address.Usage)
		err := flags.Parse(args)
		return webpage.Tool(allowed), err
	}
	return nil, fmt.Errorf("unknown program %q of a shipped tool", name)
}
