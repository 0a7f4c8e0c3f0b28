package filewrite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"

	"github.com/seed-018f16cc/toolbus/program"
)

// Tool returns the tool, whose one function is write. It writes below the folder root; "" is DefaultRoot.
func Tool(root string) program.Tool {
	t := &tool{root: cmp.Or(root, DefaultRoot), rename: (*os.Root).Rename}
	return program.Tool{"write": {
		DryRun:  true,
		Execute: program.Typed(t.execute),
		Lookup:  program.Typed(t.lookup),
	}}
}

// tool writes below one root folder.
type tool struct {
	root   string
	rename func(root *os.Root, from, to string) error // os.Root.Rename, but in tests of its failure
}

// RootVariable is the environment variable with the root folder, and DefaultRoot is the root folder without it.
const (
	RootVariable = "FS_WRITE_ROOT"
	DefaultRoot  = "data"
)

// Input is the file to write.
type Input struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Mode     string `json:"mode,omitzero"`
	Encoding string `json:"encoding,omitzero"`
}

// Output is the file that was written.
type Output struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Created says whether the path did not exist before. A lookup cannot know and leaves it out.
	Created *bool `json:"created,omitzero"`
}

// request is an input that has been checked.
type request struct {
	path    string // local to the root
	content []byte
	mode    os.FileMode
	keep    bool // whether an existing file keeps its mode
	sum     string
}

func newRequest(in Input) (request, error) {
	path, err := checkPath(in.Path)
	if err != nil {
		return request{}, err
	}
	r := request{path: path, content: []byte(in.Content), mode: 0o644, keep: in.Mode == ""}
	if in.Encoding == "base64" {
		if r.content, err = base64.StdEncoding.Strict().DecodeString(in.Content); err != nil {
			return request{}, program.NoEffect("bad_content", "the content is not base64")
		}
	}
	if in.Mode != "" {
		mode, err := strconv.ParseUint(in.Mode, 8, 32)
		if err != nil || mode > 0o777 {
			return request{}, program.NoEffect("bad_content", "the mode is not of the form 0644")
		}
		r.mode = os.FileMode(mode)
	}
	r.sum = fmt.Sprintf("%x", sha256.Sum256(r.content))
	return r, nil
}

func (r request) output(created *bool) Output {
	return Output{Path: r.path, Bytes: int64(len(r.content)), SHA256: r.sum, Created: created}
}

func (t *tool) execute(ctx context.Context, call *program.Call, in Input, _ *program.Stream) (program.Result, error) {
	r, err := newRequest(in)
	if err != nil {
		return program.Result{}, err
	}
	if call.DryRun {
		return t.rehearse(r)
	}
	created, err := t.write(ctx, r, temporary(call))
	if err != nil {
		return program.Result{}, err
	}
	effect, err := t.sideEffect(r)
	return program.Result{Output: r.output(&created), SideEffects: []program.SideEffect{effect}}, err
}

// rehearse answers what execute would, as far as looking tells, and changes nothing.
func (t *tool) rehearse(r request) (program.Result, error) {
	root, err := os.OpenRoot(t.root)
	created := os.IsNotExist(err)
	if err == nil {
		defer root.Close()
		_, created, err = inspect(root, r)
	}
	if err != nil && !created {
		return program.Result{}, classify(err, program.EffectNone)
	}
	return program.Result{Output: r.output(&created), Warnings: []string{"dry run: nothing was written"}}, nil
}
