package audit

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// Decode is the inverse of [Record.Append]. ok is false if line is not a record. A record of a newer build, or one with
// an event or an effect class that its form does not have, is an error of type [format.Error].
func Decode(line []byte) (r Record, ok bool, err error) { return Parse(string(line)) }

// Parse is [Decode] for a string. The strings in the record share its memory.
func Parse(line string) (r Record, ok bool, err error) {
	if isText(line) && records.Read(line, &r, nil) && format.Record.Check(r.Form) == nil {
		return checked(r)
	}
	return parseOdd([]byte(line))
}

// parseOdd is Parse for lines that [Record.Append] does not write.
func parseOdd(line []byte) (r Record, ok bool, err error) {
	bad := json.Unmarshal(line, &r)
	number := r.Form
	if bad != nil { // a newer build may have changed the type of a member
		var head struct {
			Form int `json:"form"`
		}
		if json.Unmarshal(line, &head) != nil {
			return r, false, nil
		}
		number = head.Form
	}
	if number == 0 {
		return r, false, nil
	}
	if err := format.Record.Check(number); err != nil {
		return r, false, err
	}
	if bad != nil {
		return r, false, nil
	}
	return checked(r)
}

// checked returns the results of Parse for a decoded record in a form that this build reads.
func checked(r Record) (_ Record, ok bool, err error) {
	err = r.checkValues()
	return r, err == nil && r.Event != "", err
}

// isText reports whether line is UTF-8 without control characters.
func isText(line string) bool {
	plain := true
	for i := range len(line) {
		if line[i] < ' ' {
			return false
		}
		plain = plain && line[i] < utf8.RuneSelf
	}
	return plain || utf8.ValidString(line)
}
