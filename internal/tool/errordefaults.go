package tool

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Errors of 001 have a code and an HTTP status, and nothing else.

// fill fills in what declared errors leave out from the tables, but for the HTTP status, and reports whether it has.
func (e *errorspec) fill(declared []ErrorSpec) (filled bool) {
	for i := range declared {
		d, was := &declared[i], declared[i]
		at := slices.IndexFunc(e.sections, func(s errorSection) bool { return s.declared && s.spec.Name == d.Name })
		if at >= 0 {
			table := e.sections[at].spec
			d.Class, d.Message, d.Fix = cmp.Or(d.Class, table.Class), cmp.Or(d.Message, table.Message), cmp.Or(d.Fix, table.Fix)
		}
		filled = filled || *d != was
	}
	return filled
}

// fillErrors fills in what the errors of the manifest still leave out: the class by the HTTP status, the message by the
// code, and the fix by the class.
func (l *toolLoader) fillErrors(declared []ErrorSpec) {
	for i := range declared {
		d := &declared[i]
		if d.Class = cmp.Or(d.Class, classOf(d.HTTPStatus)); d.Class == "" {
			at := pointer("/errors/%d/class", i)
			l.fail(at, named(at)+" is required", "name a class of the taxonomy, or an http_status, which tells it")
		}
		d.Message = cmp.Or(d.Message, strings.ReplaceAll(d.Name, "_", " "))
		d.Fix = cmp.Or(d.Fix, envelope.Lookup(envelope.ToolErrorCode(d.Class, d.Name)).Fix)
	}
}

// classOf returns the class of errors with an HTTP status, or "" for 0.
func classOf(status int) envelope.ErrorClass {
	switch status {
	case 0:
		return ""
	case 401, 403, 407:
		return envelope.ClassAuth
	case 404, 409, 410, 412, 423, 428:
		return envelope.ClassPrecondition
	case 408, 504:
		return envelope.ClassTimeout
	case 422:
		return envelope.ClassData
	case 429, 507:
		return envelope.ClassCapacity
	case 502, 503:
		return envelope.ClassUpstream
	}
	if status >= 500 {
		return envelope.ClassTool
	}
	return envelope.ClassRequest
}
