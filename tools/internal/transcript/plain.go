package transcript

// plainUtterances reads text without timings: each blank line, label, dash or ">>" starts a turn.
func plainUtterances(lines []string) []utterance {
	var all []utterance
	source := 0
	for _, block := range blocks(lines) {
		turn := true
		for i, line := range block {
			for _, u := range plainLine(block, i, line) {
				u.turn = u.turn || turn
				u.source = source + i + 1
				if u.text != "" || u.speaker != "" {
					all = append(all, u)
					turn = false
				}
			}
		}
		source += len(block)
	}
	return all
}

// plainLine reads line i of a block. A time of the form 1:02 at the start of a line may also be a
// time of day, so it counts as a time of the recording only where a neighbour has one too.
func plainLine(block []string, i int, line string) []utterance {
	timed := func(j int) bool { return j >= 0 && j < len(block) && bareTime.MatchString(block[j]) }
	if i > 0 && loneTime.MatchString(block[i-1]) && readTime.MatchString(line) {
		return nil
	}
	text := stripMarkup(line)
	if timed(i) && (timed(i-1) || timed(i+1)) {
		text = text[len(bareTime.FindString(text)):]
	}
	text = removeNoise(text, false)
	if name := nameOf(text); name != "" && i+1 < len(block) {
		return []utterance{{speaker: name, turn: true}}
	}
	return hear(text)
}

// nameOf is the speaker of a line that is nothing but a name and a time, or "".
func nameOf(line string) string {
	line, _ = stripLead(line)
	if len(line) > 100 {
		return ""
	}
	if match := labelLine.FindStringSubmatch(line); match != nil && isName(match[1]) {
		return match[1]
	}
	return ""
}
