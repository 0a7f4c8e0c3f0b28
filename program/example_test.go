package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/seed-018f16cc/toolbus/program"
)

// The input and the output of a function are types that encode to JSON.
type (
	query struct {
		Word string `json:"word"`
	}
	count struct {
		Lines int `json:"lines"`
	}
)

// grep counts the lines of a text that contain a word.
func grep(_ context.Context, _ *program.Call, in query, out *program.Stream) (program.Result, error) {
	if in.Word == "" {
		return program.Result{}, program.NoEffect("no_word", "there is nothing to look for")
	}
	found := 0
	for line := range strings.Lines("a cat\na dog\na cat and a dog\n") {
		if !strings.Contains(line, in.Word) {
			continue
		}
		found++
		if err := out.Chunk(strings.TrimSpace(line)); err != nil {
			return program.Result{}, err
		}
	}
	return program.Result{Output: count{found}}, nil
}

// A tool is its functions. A test runs one of them with Run: it reads the request from stdin and writes a line of JSON
// for each chunk and one for the end of the call.
func ExampleRun() {
	tool := program.Tool{"grep": {Execute: program.Typed(grep)}}
	stdin := strings.NewReader(`{"op":"execute","fn":"grep","input":{"word":"cat"}}`)
	err := program.Run(context.Background(), tool, stdin, os.Stdout)
	fmt.Println(err)
	// Output:
	// {"type":"chunk","data":"a cat"}
	// {"type":"chunk","data":"a cat and a dog"}
	// {"type":"output","output":{"lines":2},"side_effects":[],"warnings":[]}
	// <nil>
}

// The main function of a tool calls Main and nothing else. Main reads the request of an executor from standard input.
func ExampleMain() {
	defer exampleStdin(`{"op":"execute","fn":"grep","input":{"word":"cat and"}}`)()
	program.Main(program.Tool{"grep": {Execute: program.Typed(grep)}})
	// Output:
	// {"type":"chunk","data":"a cat and a dog"}
	// {"type":"output","output":{"lines":1},"side_effects":[],"warnings":[]}
}

// Typed decodes the input. It refuses an input with members that the type does not have.
func ExampleTyped() {
	handler := program.Typed(grep)
	out := program.NewStream(os.Stdout)
	result, err := handler(context.Background(), &program.Call{Input: []byte(`{"word":"dog and"}`)}, out)
	fmt.Println(result.Output, err)
	_, err = handler(context.Background(), &program.Call{Input: []byte(`{"words":["dog"]}`)}, out)
	fmt.Println(err != nil)
	// Output:
	// {0} <nil>
	// true
}

// NoEffect returns a failure that the manifest declares. The line for it says that the tool did nothing.
func ExampleNoEffect() {
	err := error(program.NoEffect("no_word", "there is nothing to look for"))
	if failed, ok := errors.AsType[*program.Error](err); ok {
		fmt.Println(failed.Effect, err)
	}
	// Output: none no_word: there is nothing to look for
}

// A Stream writes each line with one write. It counts the bytes for a tool that must stay below its output limit.
func ExampleNewStream() {
	var stdout bytes.Buffer
	out := program.NewStream(&stdout)
	err := errors.Join(out.Progress("half"), out.Log("slow disk"), out.Chunk([]int{1, 2}))
	fmt.Print(stdout.String())
	fmt.Println(out.Written() == int64(stdout.Len()), err)
	// Output:
	// {"type":"progress","data":"half"}
	// {"type":"log","data":"slow disk"}
	// {"type":"chunk","data":[1,2]}
	// true <nil>
}

// A function whose output may be too long for one line shortens it until it fits, and says so in a warning.
func ExampleFits() {
	pages := []string{strings.Repeat("x", program.MaxLine), "a short page"}
	result := program.Result{Output: pages}
	for !program.Fits(result) {
		pages = pages[1:]
		result = program.Result{Output: pages, Warnings: []string{"the first pages are left out"}}
	}
	fmt.Println(result.Output, result.Warnings)
	// Output: [a short page] [the first pages are left out]
}

// exampleStdin makes text the standard input of this process.
func exampleStdin(text string) (undo func()) {
	before := os.Stdin
	r, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.WriteString(text); err != nil { // which the pipe has room for
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	os.Stdin = r
	return func() { os.Stdin = before; _ = r.Close() }
}
