package tool

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// numeric matches the numbers of the core schema of YAML 1.2 (10.3.2), but for infinity and NaN. The YAML library reads
// numbers of YAML 1.1 as well, such as 012 for ten, and takes 1e3 for a text.
var numeric = regexp.MustCompile(
	`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)$`)

// plainScalar returns the value of a text without quotes that is no word of YAML: a number, or the text itself. ok is
// false for a number that is too large for JSON.
func plainScalar(text string) (value any, ok bool) {
	if !numeric.MatchString(text) {
		return text, true
	}
	digits, base := text, 10
	if prefix := text[:min(2, len(text))]; prefix == "0o" || prefix == "0x" {
		digits, base = text[2:], map[string]int{"0o": 8, "0x": 16}[prefix]
	}
	if n, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), base, 64); err == nil {
		return n, true
	}
	if n, err := strconv.ParseInt(digits, base, 64); err == nil {
		return n, true
	}
	f, _ := strconv.ParseFloat(text, 64) // an infinity if it is out of range
	return f, base == 10 && !math.IsInf(f, 0)
}

// MarshalYAML returns a manifest as YAML. It quotes the texts that a reader takes for numbers, which the YAML library
// does not do for all of them.
func MarshalYAML(manifest yaml.MapSlice, o ...yaml.EncodeOption) ([]byte, error) {
	return yaml.MarshalWithOptions(quoted(manifest), o...)
}

// quoted returns a value with texts that look like numbers as [quotedText].
func quoted(value any) any {
	switch value := value.(type) {
	case string:
		if numeric.MatchString(value) {
			return quotedText(value)
		}
	case []string:
		return quotedItems(value)
	case []any:
		return quotedItems(value)
	case yaml.MapSlice:
		all := make(yaml.MapSlice, len(value))
		for i, item := range value {
			all[i] = yaml.MapItem{Key: item.Key, Value: quoted(item.Value)}
		}
		return all
	}
	return value
}

func quotedItems[T any](items []T) []any {
	all := make([]any, len(items))
	for i, item := range items {
		all[i] = quoted(item)
	}
	return all
}

// quotedText is a text that YAML has in quotes.
type quotedText string

// MarshalYAML implements [yaml.BytesMarshaler].
func (q quotedText) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(q))), nil }
