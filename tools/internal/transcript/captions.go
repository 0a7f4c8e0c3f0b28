package transcript

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cue is one caption: what is shown from start to end.
type cue struct {
	start, end time.Duration
	lines      []string
}

const (
	cueTime = `(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?`
	// pause between two cues starts a new paragraph.
	pause = 4 * time.Second
)

var (
	timing = regexp.MustCompile(`^\s*` + cueTime + `\s*-->\s*` + cueTime + `(?:\s.*)?$`)
	// sbvTiming is the timing line of YouTube's own format.
	sbvTiming = regexp.MustCompile(`^\s*(\d{1,2}):(\d{2}):(\d{2})\.(\d{3}),(\d{1,2}):(\d{2}):(\d{2})\.(\d{3})\s*$`)
	cueNumber = regexp.MustCompile(`^\s*\d+\s*$`)
	// karaoke is a time inside a line; only rolling captions have many.
	karaoke = regexp.MustCompile(`<(?:\d+:)?\d{2}:\d{2}\.\d{3}>`)
)

// isCaptions says whether the lines are captions: whether any of them is a timing.
func isCaptions(lines []string) bool { return indexTiming(lines) >= 0 }

// parseTiming returns the start and the end of a timing line, or nil.
func parseTiming(line string) []time.Duration {
	if !strings.Contains(line, ":") {
		return nil
	}
	match := timing.FindStringSubmatch(line)
	if match == nil {
		match = sbvTiming.FindStringSubmatch(line)
	}
	if match == nil {
		return nil
	}
	return []time.Duration{duration(match[1:5]), duration(match[5:9])}
}

// duration is the time of the four groups of cueTime.
func duration(groups []string) time.Duration {
	number := func(digits string) time.Duration {
		n, _ := strconv.Atoi(digits) // the pattern allows at most three digits; none is 0
		return time.Duration(n)
	}
	fraction := (groups[3] + "000")[:3]
	return number(groups[0])*time.Hour + number(groups[1])*time.Minute +
		number(groups[2])*time.Second + number(fraction)*time.Millisecond
}

// parseCues reads captions. It forgives what real files get wrong: blank lines inside a cue, none
// between cues, missing numbers, a comma for a point.
func parseCues(lines []string) []cue {
	all := blocks(lines)
	webVTT := isWebVTT(all)
	var cues []cue
	for i, block := range all {
		switch first := indexTiming(block); {
		case webVTT && (i == 0 || isAside(block[0])):
			block = block[max(first, 0):]
			if first < 0 {
				continue
			}
		case first < 0 && cueNumber.MatchString(block[0]) && len(block) == 1 && startsCue(all, i+1):
			continue
		case webVTT && first > 0: // the identifier of a cue
			block = block[first:]
		}
		cues = appendBlock(cues, block)
	}
	return cues
}

// appendBlock adds the cues of a block. Lines before its first timing belong to the cue before.
func appendBlock(cues []cue, block []string) []cue {
	for i, line := range block {
		times := parseTiming(line)
		switch {
		case times != nil:
			cues = append(cues, cue{start: times[0], end: times[1]})
		case cueNumber.MatchString(line) && i+1 < len(block) && parseTiming(block[i+1]) != nil:
		case len(cues) == 0:
			cues = append(cues, cue{lines: []string{line}})
		default:
			last := &cues[len(cues)-1]
			last.lines = append(last.lines, line)
		}
	}
	return cues
}

func isWebVTT(all [][]string) bool {
	if len(all) == 0 {
		return false
	}
	rest, found := strings.CutPrefix(all[0][0], "WEBVTT")
	return found && (rest == "" || rest[0] == ' ')
}

// isAside says whether a WebVTT block that starts so is no cue.
func isAside(line string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return word == "NOTE" || word == "STYLE" || word == "REGION"
}

func indexTiming(block []string) int {
	return slices.IndexFunc(block, func(line string) bool { return parseTiming(line) != nil })
}

func startsCue(all [][]string, i int) bool { return i < len(all) && parseTiming(all[i][0]) != nil }

// utterances returns what the cues say, each line once.
func utterances(cues []cue) []utterance {
	heard := make([][]utterance, len(cues))
	for i, c := range cues {
		heard[i] = speak(c)
	}
	rolling := isRolling(cues, heard)
	var all []utterance
	var shown []string // the words of the cue before
	var before cue
	for i, c := range cues {
		spoken := heard[i]
		now := words(spoken)
		if rolling || slices.Equal(shown, now) && c.start < before.end {
			spoken = dropWords(spoken, overlap(shown, now))
		}
		for j, u := range spoken {
			u.source = i + 1
			u.turn = u.turn || j == 0 && startsTurn(all, u, c.start-before.end)
			all = append(all, u)
		}
		if len(now) > 0 {
			shown, before = now, c
		}
	}
	return all
}

// startsTurn says whether the first line of a cue starts a paragraph although nothing in it says so:
// after a pause, and after a sentence that a loose label gave to a voice, because nobody knows
// whether that voice goes on.
func startsTurn(all []utterance, u utterance, gap time.Duration) bool {
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return gap >= pause || last.loose && u.speaker == "" && endsSentence(last.text)
}

// speak returns the utterances of one cue.
func speak(c cue) []utterance {
	var spoken []utterance
	for _, line := range c.lines {
		for _, voice := range splitVoices(line) {
			for i, u := range hear(removeNoise(stripMarkup(voice.text), true)) {
				if i == 0 && voice.speaker != "" {
					u = voice.saying(u)
				}
				u.turn = u.turn || i == 0 && voice.turn
				if u.text != "" {
					spoken = append(spoken, u)
				}
			}
		}
	}
	return spoken
}

// saying is u in the voice of a voice tag; a label in the text is then part of the text.
func (voice utterance) saying(u utterance) utterance {
	if u.speaker != "" && u.speaker != voice.speaker {
		u.text = paragraph{u.speaker, u.text}.String()
	}
	return utterance{speaker: voice.speaker, turn: true, text: u.text}
}

// isRolling says whether captions roll: whether cues repeat what the cue before showed and add to
// it. One word is no evidence, because people do say "No." twice.
func isRolling(cues []cue, heard [][]utterance) bool {
	repeats, pairs := 0, 0
	var shown []string
	for i, c := range cues {
		if slices.ContainsFunc(c.lines, karaoke.MatchString) {
			return true
		}
		now := words(heard[i])
		if len(shown) > 0 && len(now) > 0 {
			pairs++
			if overlap(shown, now) > 1 {
				repeats++
			}
		}
		shown = now
	}
	return repeats > 1 && repeats*4 >= pairs
}

// overlap is the length of the longest end of before that now starts with. No screen shows more
// words than the bound.
func overlap(before, now []string) int {
	for n := min(len(before), len(now), 200); n > 0; n-- {
		if slices.Equal(before[len(before)-n:], now[:n]) {
			return n
		}
	}
	return 0
}

func words(spoken []utterance) []string {
	var all []string
	for _, u := range spoken {
		all = append(all, strings.Fields(u.text)...)
	}
	return all
}

// dropWords removes the first n words.
func dropWords(spoken []utterance, n int) []utterance {
	var left []utterance
	for _, u := range spoken {
		all := strings.Fields(u.text)
		drop := min(n, len(all))
		n -= drop
		u.turn = u.turn && drop == 0
		if u.text = strings.Join(all[drop:], " "); u.text != "" {
			left = append(left, u)
		}
	}
	return left
}
