package transcript

import (
	"html"
	"regexp"
	"strings"
)

var (
	// knownTag is what WebVTT and SubRip files contain between angle brackets. Anything else,
	// such as "<3", is text.
	knownTag = regexp.MustCompile(`(?i)^/?(?:(?:c|i|b|u|s|v|ruby|rt|lang|font|em|strong|span|br|p)(?:[.\s/].*)?|\d[\d:.,` +
		`]*)$`)
	rubyText = regexp.MustCompile(`(?is)<rt(?:\.[^>]*)?>.*?</rt>`)
	override = regexp.MustCompile(`\{\\[^{}]*\}`) // {\an8}, {\pos(1,2)}
	// escaped is an ampersand that was escaped again and again, as in "&amp;amp;#39;".
	escaped = regexp.MustCompile(`(?i)&(?:(?:amp|#38|#x26);)+`)
)

// stripMarkup removes tags and decodes entities.
func stripMarkup(line string) string {
	if !strings.ContainsAny(line, "&<{") {
		return line
	}
	line = escaped.ReplaceAllString(line, "&")
	line = html.UnescapeString(line)
	line = override.ReplaceAllString(line, "")
	line = rubyText.ReplaceAllString(line, "")
	return stripTags(line)
}

// stripTags removes known tags in one pass, also tags that only appear once another one is gone.
func stripTags(line string) string {
	var out []byte
	var open []int // where in out the unclosed '<' are
	for i := range len(line) {
		out = append(out, line[i])
		switch line[i] {
		case '<':
			open = append(open, len(out)-1)
		case '>':
			if len(open) == 0 {
				continue
			}
			start := open[len(open)-1]
			open = open[:len(open)-1]
			if knownTag.Match(out[start+1 : len(out)-1]) {
				out = out[:start]
			}
		}
	}
	return string(out)
}

// voice is a WebVTT voice tag; its annotation is the speaker.
var voice = regexp.MustCompile(`(?i)<v(?:\.[^\s>]*)?(?:\s+([^>]*))?>`)

// splitVoices cuts a line of a cue at its voice tags. The text before the first has no speaker.
func splitVoices(line string) []utterance {
	tags := voice.FindAllStringSubmatchIndex(line, -1)
	if tags == nil {
		return []utterance{{text: line}}
	}
	spoken := []utterance{{text: line[:tags[0][0]]}}
	for i, tag := range tags {
		end := len(line)
		if i+1 < len(tags) {
			end = tags[i+1][0]
		}
		var name string
		if tag[2] >= 0 {
			name = strings.Join(strings.Fields(html.UnescapeString(line[tag[2]:tag[3]])), " ")
		}
		if !isName(name) { // later it could not be told from text
			name = ""
		}
		spoken = append(spoken, utterance{speaker: name, turn: true, text: line[tag[1]:end]})
	}
	return spoken
}
