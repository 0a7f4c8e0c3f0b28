package transcript

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// sounds are words for what is heard but not said, in the languages whose captions use them most.
var sounds = set(`music musik musique música musica muziek музыка 音楽 音乐 音樂 음악 موسيقى संगीत
	applause applaus applaudissements aplausos applausi clapping claps аплодисменты 拍手 掌声 掌聲 박수 تصفيق
	laughter laughs laughing laugh laughed chuckles chuckling giggles giggling gelächter lachen lacht rires rire
	risas ríe risate risos смех смеётся 笑い 笑 笑声 웃음 ضحك
	cheers cheering cheer jubel jubilation sighs sighing sigh seufzt coughs coughing cough hustet sneezes sniffs
	sniffles gasps gasping groans moans grunts screams screaming shouts shouting sobs sobbing crying cries
	whispers whispering whistles whistling whistle humming hums breathing breathes exhales inhales yawns
	silence pause noise noises static beep beeps beeping bleep buzzer buzzing ringing rings ringtone chimes
	chime bell bells thud bang click clicks clicking typing footsteps knocking knocks knock siren sirens
	wailing thunder rumbling rustling barking barks meows chirping engine revving honking horn horns gunshot
	gunshots explosion explosions crash crashes slam slams slamming creaks shatters splash sfx jingle chatter murmurs
	murmuring booing boos stille pausa`)

// manners are words that may stand beside a sound.
var manners = set(`a an and the in of to on with from by then more some no loudly softly quietly briefly
	background upbeat soft loud quiet gentle dramatic tense somber intro outro theme opening closing playing plays
	play continues stops fades ends starts resumes swells audience crowd everyone everybody all both group speaker
	speakers man woman child children baby dog dogs bird birds cat phone telephone door doors clears clearing
	throat deep deeply heavy heavily distant indistinct light mild ambient electronic classical instrumental
	guitar piano orchestral jazz rock im und leise laute de fond`)

// lost are words that say that speech is missing; such a bracket stays.
var lost = set(`inaudible unintelligible indistinct indiscernible crosstalk overlapping redacted censored foreign
	speaks speaking unverständlich unv bleeped __`)

var (
	timeInside = regexp.MustCompile(`^` + clock + `$`)
	starred    = regexp.MustCompile(`\*\p{L}[\p{L} ]{0,40}\*`) // *sighs*
)

// closers are the closing brackets and what opens them.
var closers = map[rune]rune{']': '[', ')': '(', '］': '［', '）': '（', '】': '【'}

// opening is a bracket not closed yet: which one, and where it stands in the text so far.
type opening struct {
	bracket rune
	at      int
}

const (
	notes   = "♪♫♬♩🎵🎶"
	openers = "[(［（【"
)

// removeNoise removes notes and bracketed sounds and times. captions says that square brackets are
// never the words of an editor.
func removeNoise(text string, captions bool) string {
	if !strings.ContainsAny(text, notes+openers+"*") {
		return text
	}
	text = starred.ReplaceAllStringFunc(text, func(inside string) string {
		if isSound(lowerWords(inside)) {
			return " "
		}
		return inside
	})
	return removeBrackets(text, captions)
}

// removeBrackets does its work in one pass, from the inside out.
func removeBrackets(text string, captions bool) string {
	var out []rune
	var open []opening
	count := map[rune]int{}
	for _, r := range text {
		opener, closes := closers[r]
		switch {
		case strings.ContainsRune(notes, r):
			r = ' '
		case strings.ContainsRune(openers, r):
			open = append(open, opening{r, len(out)})
			count[r]++
		case closes && count[opener] > 0:
			var last opening
			for last.bracket != opener { // what was opened later is never closed
				last, open = open[len(open)-1], open[:len(open)-1]
				count[last.bracket]--
			}
			if isNoise(out[last.at+1:], opener, captions) {
				out, r = out[:last.at], ' '
			}
		case strings.ContainsRune(",.;:!?", r):
			out = closeGap(out)
		}
		out = append(out, r)
	}
	return string(out)
}

// closeGap removes the spaces that a removed bracket leaves before a punctuation mark. Two spaces
// betray it: French text has only one before its marks.
func closeGap(out []rune) []rune {
	if !strings.HasSuffix(string(out[max(0, len(out)-2):]), "  ") {
		return out
	}
	for len(out) > 0 && out[len(out)-1] == ' ' {
		out = out[:len(out)-1]
	}
	return out
}

// isNoise says whether a bracket with this inside holds no words of the speech.
func isNoise(inside []rune, bracket rune, captions bool) bool {
	if len(inside) == 0 || len(inside) > 80 {
		return false
	}
	text := strings.TrimSpace(string(inside))
	if text == "" {
		return true // what a removed bracket leaves; "f()" stays
	}
	all := lowerWords(text)
	return timeInside.MatchString(text) || isSound(all) || captions && bracket == '[' && isStageDirection(text, all)
}

func lowerWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && r != '_'
	})
}

// isSound says whether every word is a sound or a manner, and at least one is a sound.
func isSound(all []string) bool {
	known := func(word string) bool { return sounds[word] || manners[word] }
	return slices.ContainsFunc(all, func(word string) bool { return sounds[word] }) &&
		!slices.ContainsFunc(all, func(word string) bool { return !known(word) })
}

// isStageDirection says whether a square bracket of captions describes a sound: "[door slams]",
// "[DOOR SLAMS]". A bracket shaped like a name may say who speaks, so it stays.
func isStageDirection(text string, all []string) bool {
	if len(all) == 0 || len(all) > 6 || slices.ContainsFunc(all, func(word string) bool { return lost[word] }) ||
		strings.ContainsFunc(text, unicode.IsDigit) {
		return false
	}
	return !isName(text) || len(all) > 1 && text == strings.ToUpper(text)
}
