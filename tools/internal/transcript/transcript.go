package transcript

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-018f16cc/toolbus/program"
)

// Polish makes better prose of some paragraphs of a clean transcript, with an empty line between them, and returns
// them in the same form.
type Polish func(ctx context.Context, text string) (string, error)

// Tool returns the tool, whose one function is clean. What it gives has been through polish, unless that is nil.
func Tool(polish Polish) program.Tool {
	return program.Tool{"clean": {Execute: program.Typed(cleaner{polish}.run)}}
}

// Input is a transcript of any kind.
type Input struct {
	Text string `json:"text"`
}

// Output is the transcript as paragraphs, with an empty line between them.
type Output struct {
	CleanText string `json:"clean_text"`
}

// chunk is one paragraph. The paragraphs of all chunks, with an empty line between, are the
// clean_text.
type chunk struct {
	Text string `json:"text"`
}

const (
	// streamFrom is the length of input from which paragraphs are worth streaming.
	streamFrom = 8 << 10
	// maxOutput keeps the chunks, with one more of any size, below the output limit of the manifest.
	maxOutput = 7 << 20
)

// errFull means that no more chunks may be written.
var errFull = errors.New("the output limit is near")

// cleaner makes outputs.
type cleaner struct{ polish Polish }

func (c cleaner) run(ctx context.Context, _ *program.Call, in Input, out *program.Stream) (program.Result, error) {
	var paragraphs []string
	smooth := smoother{polish: c.polish, emit: func(text string) error {
		paragraphs = append(paragraphs, text)
		if len(in.Text) < streamFrom {
			return nil
		}
		return within(out, out.Chunk, chunk{text})
	}}
	err := clean(ctx, in.Text, sink{
		paragraph: func(text string) error { return smooth.add(ctx, text) },
		progress:  func(p progress) error { return within(out, out.Progress, p) },
	})
	if err == nil {
		err = smooth.flush(ctx)
	}
	return result(paragraphs, err)
}

// result is what becomes of a transcript whose clean paragraphs these are.
func result(paragraphs []string, err error) (program.Result, error) {
	res := program.Result{Output: Output{strings.Join(paragraphs, "\n\n")}}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return program.Result{}, program.NoEffect("timeout", "the time was up before the transcript was clean")
	case errors.Is(err, program.ErrTooLong):
		return program.Result{}, program.NoEffect("too_large", "a paragraph of the clean text is larger than a chunk may be")
	case errors.Is(err, errFull):
		return program.Result{}, program.NoEffect("too_large",
			"the clean text is larger than all chunks together may be; send it in parts")
	case err != nil:
		return program.Result{}, err
	case len(paragraphs) == 0:
		return program.Result{}, program.NoEffect("empty_transcript", "the transcript has no spoken words")
	case !program.Fits(res):
		return program.Result{}, program.NoEffect("too_large",
			"the clean text is larger than an answer may be; send it in parts")
	}
	return res, nil
}

// within writes data while there is room for it.
func within(out *program.Stream, write func(any) error, data any) error {
	if out.Written() > maxOutput {
		return errFull
	}
	return write(data)
}
