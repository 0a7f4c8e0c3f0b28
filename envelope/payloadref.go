package envelope

import (
	"strconv"
	"strings"
)

// String is the reference as a header carries it: `sha256:<hex>;<bytes>`.
func (r PayloadRef) String() string {
	return "sha256:" + r.SHA256 + ";" + strconv.FormatInt(r.Bytes, 10)
}

// ParsePayloadRef is the inverse of String; it returns nil for anything else.
func ParsePayloadRef(s string) *PayloadRef {
	s, ok := strings.CutPrefix(s, "sha256:")
	sum, bytes, ok2 := strings.Cut(s, ";")
	n, err := strconv.ParseInt(bytes, 10, 64)
	if !ok || !ok2 || err != nil || n < 0 || strconv.FormatInt(n, 10) != bytes {
		return nil // only one spelling of a number is taken
	}
	if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		return nil
	}
	return &PayloadRef{SHA256: sum, Bytes: n}
}
