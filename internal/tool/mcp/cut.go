package mcp

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// cut returns a result of at most most bytes, and a warning about what was removed. A success keeps its
// structuredContent whole, or becomes an error that says that the tool was run: official clients drop a result whose
// structured content is missing, after its effect. An error loses its structuredContent first, because content says the
// same to a model. If nothing else fits, cut removes all members but isError, and empties content.
func cut(members []ijson.Member, most int) (result jsontext.Value, says string) {
	size := len(ijson.Object(members...))
	say := func(what string) string {
		return fmt.Sprintf("the result has %d bytes, more than the %d that are kept: %s", size, most, what)
	}
	structured, isError := memberOf(members, "structuredContent"), isTrue(memberOf(members, "isError"))
	if structured != nil && !isError && repeats(memberOf(members, "content"), structured) {
		if result = with(ijson.Object(members...), "content", jsontext.Value("[]")); len(result) <= most {
			return result, say("the text was left out, because structuredContent is the same")
		}
	}
	if structured != nil && isError {
		members = slices.DeleteFunc(members, func(m ijson.Member) bool { return m.Is("structuredContent") })
		if result = ijson.Object(members...); len(result) <= most {
			return result, say("structuredContent was left out")
		}
	}
	if result = cutEnd(members, most); len(result) <= most {
		return result, say("the end of the content was cut")
	}
	if structured != nil && !isError {
		if result = done(memberOf(members, "content"), structured, most); len(result) <= most {
			return result, say("structuredContent was left out, and the end of the content was cut")
		}
	}
	members = slices.DeleteFunc(members, func(m ijson.Member) bool { return !m.Is("content") && !m.Is("isError") })
	return with(ijson.Object(members...), "content", jsontext.Value("[]")), say("all of it but isError was left out")
}

// memberOf returns the value of a member, or nil.
func memberOf(members []ijson.Member, name string) jsontext.Value {
	for _, m := range members {
		if m.Is(name) {
			return m.Value
		}
	}
	return nil
}

// repeats reports whether the only block of a content is the JSON of a value, as protocols since 2025-06-18 recommend.
func repeats(content, value jsontext.Value) bool {
	var all []block
	if json.Unmarshal(content, &all) != nil || len(all) != 1 || all[0].Type != "text" {
		return false
	}
	text, value := jsontext.Value(all[0].Text), slices.Clone(value)
	return text.Canonicalize() == nil && value.Canonicalize() == nil && bytes.Equal(text, value)
}

// cutEnd returns a result whose content is cut so that it has at most most bytes, if that is possible.
func cutEnd(members []ijson.Member, most int) jsontext.Value {
	members = slices.Clone(members)
	for i, m := range members {
		if m.Is("content") {
			members[i].Value = cutContent(m.Value, most-len(ijson.Object(members...))+len(m.Value))
		}
	}
	return ijson.Object(members...)
}

// done returns an error of at most most bytes with the beginning of a success, if that is possible.
func done(content, structured jsontext.Value, most int) jsontext.Value {
	const notice = "The tool was run and has succeeded, so do not call it again for this. " +
		"Its result is too large to be shown. It begins:"
	all := append([]jsontext.Value{textBlock(notice)}, ijson.Items(content)...)
	if len(all) == 1 {
		all = append(all, textBlock(string(structured)))
	}
	return cutEnd([]ijson.Member{
		member("content", ijson.Array(all...)), member("isError", jsontext.Value("true")),
	}, most)
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
