package transcript

import "context"

// progressEvery is how many cues or lines lie between two reports.
const progressEvery = 500

// sink takes what cleaning finds out on the way; both functions may be nil.
type sink struct {
	paragraph func(text string) error
	progress  func(progress) error
}

// progress says how far cleaning is.
type progress struct {
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Unit  string `json:"unit"` // cues or lines
}

// clean cleans a transcript and hands its paragraphs to out in order.
func clean(ctx context.Context, text string, out sink) error {
	spoken, at := read(text)
	a := assembler{style: newStyle(at.Unit == "cues", spoken), emit: out.paragraph}
	for _, u := range spoken {
		if u.source/progressEvery > at.Done/progressEvery {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			at.Done = u.source
			if err := out.progress(at); err != nil {
				return err
			}
		}
		if err := a.add(u); err != nil {
			return err
		}
	}
	return a.end()
}

// read finds out what kind of transcript text is and reads it.
func read(text string) ([]utterance, progress) {
	lines := splitLines(text)
	if isCaptions(lines) {
		cues := parseCues(lines)
		return utterances(cues), progress{Total: len(cues), Unit: "cues"}
	}
	if all := blocks(lines); len(all) > 0 && isWebVTT(all[:1]) && len(all[0][0]) == len("WEBVTT") {
		return nil, progress{Unit: "cues"} // a file without a cue
	}
	spoken := plainUtterances(lines)
	total := 0
	if len(spoken) > 0 {
		total = spoken[len(spoken)-1].source
	}
	return spoken, progress{Total: total, Unit: "lines"}
}
