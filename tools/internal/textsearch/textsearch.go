package textsearch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/rootdir"
)

// Tool returns the tool, whose one function is search. It reads below the folder root; "" is the working directory.
func Tool(root string) program.Tool {
	return program.Tool{"search": {Execute: program.Typed(
		func(ctx context.Context, _ *program.Call, in Input, out *program.Stream) (program.Result, error) {
			return run(ctx, cmp.Or(root, "."), in, out)
		})}}
}

// RootVariable is the environment variable with the root folder.
const RootVariable = "TEXT_SEARCH_ROOT"

// Input is the pattern with where to look for it.
type Input struct {
	Pattern    string   `json:"pattern"`
	Paths      []string `json:"paths,omitzero"`
	Regex      *bool    `json:"regex,omitzero"`
	Case       string   `json:"case,omitzero"`
	Glob       []string `json:"glob,omitzero"`
	MaxMatches int      `json:"max_matches,omitzero"`
	Context    int      `json:"context,omitzero"`
}

// Output counts the matches, which the search has emitted.
type Output struct {
	Matches          int  `json:"matches"`
	FilesWithMatches int  `json:"files_with_matches"`
	FilesSearched    int  `json:"files_searched"`
	Truncated        bool `json:"truncated"`
}

// match is the data of one chunk: the first match of one line.
type match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`   // from 1
	Column int      `json:"column"` // from 1, in characters
	Text   string   `json:"text"`
	Before []string `json:"before"`
	After  []string `json:"after"`
}

const defaultMaxMatches = 1000

func run(ctx context.Context, folder string, in Input, out *program.Stream) (program.Result, error) {
	pattern, err := newPattern(in)
	if err != nil {
		return program.Result{}, err
	}
	globs, err := newGlobs(in.Glob)
	if err != nil {
		return program.Result{}, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return program.Result{}, classify(err, "the root folder of the tool")
	}
	defer root.Close()
	s := &search{
		root: root, pattern: pattern, context: in.Context, limit: cmp.Or(in.MaxMatches, defaultMaxMatches), out: out,
	}
	w := &walker{root: root, globs: globs, visit: s.file, seen: map[string]bool{}}
	if len(in.Paths) == 0 {
		in.Paths = []string{"."}
	}
	for _, path := range in.Paths {
		err := w.start(ctx, path)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return program.Result{}, classify(err, path)
		}
	}
	return program.Result{Output: s.found, Warnings: s.warnings(w.unreadable)}, nil
}

// classify turns an error of the search into one that the manifest declares; it leaves alone what
// is a fault, such as a lost reader. Searching has no effect in any case.
func classify(err error, what string) error {
	var known *program.Error
	var outside *rootdir.Outside
	var system *os.PathError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return program.NoEffect("timeout", "the time was up before all files were searched")
	case errors.As(err, &outside):
		return outside.Failure(program.EffectNone)
	case errors.Is(err, os.ErrNotExist):
		return program.NoEffect("not_found", fmt.Sprintf("%s does not exist", what))
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return program.NoEffect("not_found", fmt.Sprintf("%s leads through a file, or through links in a circle", what))
	case !errors.As(err, &system):
		return err
	}
	if outside := rootdir.Escape(err); outside != nil {
		return outside.Failure(program.EffectNone)
	}
	return program.NoEffect("io_error", fmt.Sprintf("%s cannot be read: %v", what, system.Err))
}
