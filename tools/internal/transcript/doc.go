// Package transcript turns captions and transcripts into plain paragraphs: the tool transcript.clean, as the program
// that it is and as a tool of the MCP server transcript-clean. It has no model of its own: the same text always gives
// the same result, but for what a [Polish] makes of it.
//
// # What comes in
//
// WebVTT, SubRip (SRT), YouTube's SBV, the rolling captions that YouTube makes, and transcripts
// as people paste them: with speaker labels, with times at the start of lines, or plain. Text
// with at least one timing line is taken for captions, everything else for lines of text.
//
// # The way through
//
//  1. lines.go cuts the text into lines and removes invisible characters.
//  2. captions.go finds cues and undoes rolling; plain.go reads lines of text. Both use markup.go
//     (tags, entities) and speaker.go (labels, times, dashes) and give utterances.
//  3. paragraphs.go joins utterances of one speaker, lets noise.go remove "[Music]" and words.go
//     remove "um" and "the the", and cuts what is too long at the end of a sentence.
//
// # What is removed, and what is not
//
// Removed: timings, cue numbers and identifiers, headers, NOTE, STYLE and REGION blocks, tags,
// times in brackets, sounds in brackets from a fixed vocabulary (in captions also any short
// square bracket that does not look like a name), notes (♪), the hesitations uh, uhm, äh, öh and
// euh, in English text also um, erm and er, repeated function words ("the the", "I, I"), and
// stammered beginnings ("w-w-we").
//
// Kept: [inaudible], [crosstalk] and their like, because they say that words are missing; sung
// words; "mm-hmm" and "uh-huh", because they answer; "no no no" and "had had", because they mean
// something; what editors put in brackets ("[the company]").
//
// # Cleaning twice
//
// Cleaning what has been cleaned changes nothing, with three exceptions: text that looks like
// captions once its entities are decoded; constructions that hide in each other more than
// maxRounds times ("&am&amp;p;lt;"); and text so short or mixed that removing noise changes
// whether it counts as English. Tests hold this.
//
// Start reading at transcript.go.
package transcript
