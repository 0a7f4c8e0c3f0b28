package main

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
	lead, _ := stripLead(text)
	if match := labelLine.FindStringSubmatch(lead); match != nil && i+1 < len(block) && isName(match[1]) {
		return []utterance{{speaker: match[1], turn: true}}
	}
	return hear(text)
}
