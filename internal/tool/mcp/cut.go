package mcp

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// cut returns a result of at most most bytes, and a warning about what was removed. It first tries to remove
// structuredContent, because content says the same to a model. If that is not enough, it keeps structuredContent and
// removes the end of content. If that is not enough, it removes all members but isError, and empties content.
func cut(members []ijson.Member, most int) (result jsontext.Value, says string) {
	result = ijson.Object(members...)
	size := len(result)
	say := func(what string) string {
		return fmt.Sprintf("the result has %d bytes, more than the %d that are kept: %s", size, most, what)
	}
	without := func(name string) []ijson.Member {
		return slices.DeleteFunc(slices.Clone(members), func(m ijson.Member) bool { return m.Is(name) })
	}
	if less := ijson.Object(without("structuredContent")...); len(less) < size && len(less) <= most {
		return less, say("structuredContent was left out")
	}
	for i, m := range members {
		if m.Is("content") {
			members[i].Value = cutContent(m.Value, len(m.Value)-(size-most))
		}
	}
	if result = ijson.Object(members...); len(result) <= most {
		return result, say("the end of the content was cut")
	}
	members = slices.DeleteFunc(members, func(m ijson.Member) bool { return !m.Is("content") && !m.Is("isError") })
	for i, m := range members {
		if m.Is("content") {
			members[i].Value = jsontext.Value("[]")
		}
	}
	return ijson.Object(members...), say("all of it but isError was left out")
}

// cutContent returns the first blocks of a content that fit into most bytes, and the beginning of the text of the next
// block.
func cutContent(content jsontext.Value, most int) jsontext.Value {
	var kept []jsontext.Value
	left := most - len("[]")
	for _, block := range ijson.Items(content) {
		if len(block) <= left {
			kept = append(kept, block)
			left -= len(block) + len(",")
			continue
		}
		if block = cutText(block, left); block != nil {
			kept = append(kept, block)
		}
		break
	}
	return ijson.Array(kept...)
}

// cutText returns a block with the beginning of its text, at most most bytes in all. It returns nil if the block has no
// text or nothing fits.
func cutText(block jsontext.Value, most int) jsontext.Value {
	members := ijson.Members(block)
	i := slices.IndexFunc(members, func(m ijson.Member) bool { return m.Is("text") })
	var text string
	if i < 0 || json.Unmarshal(members[i].Value, &text) != nil {
		return nil
	}
	room := most - (len(ijson.Object(members...)) - len(members[i].Value)) - len(`""`)
	end := 0 // end of the kept text
	for at, r := range text {
		if room -= quotedLen(r); room < 0 {
			break
		}
		end = at + utf8.RuneLen(r)
	}
	if end == 0 {
		return nil
	}
	members[i].Value = ijson.Quote(text[:end])
	return ijson.Object(members...)
}

// quotedLen returns the number of bytes that a character takes in a JSON string.
func quotedLen(r rune) int {
	if ' ' <= r && r < utf8.RuneSelf && r != '"' && r != '\\' {
		return 1
	}
	return len(ijson.Quote(string(r))) - len(`""`)
}
