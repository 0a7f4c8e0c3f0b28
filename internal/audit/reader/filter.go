package reader

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// Filter selects audit records. Zero values select all. Since and Until are compared with the timestamp of the record,
// which is bus time.
type Filter struct {
	Since, Until    time.Time
	Tenant          string
	Tool, Actor     string
	Run, Role, Lane string
	Scope           map[string]string // keys of the scope that the call needed, with their values
	Policy          []string          // digests of the policy that decided, or their first characters: all of them
	Call            string            // reference, call id, or the first 8 characters or more of a call id
	EventID         string            // audit_event_id of an answer
	Event           audit.Event       // event as stored, or [audit.Record.Meaning]
	Status          envelope.Status
	Code            envelope.Code // code, or class of codes
	Last            int           // yields only the newest Last records that match; at most 65,536
	FromNow         bool          // yields only records that are stored after the start; has no effect with Last
	Follow          bool          // continues with new records until ctx ends, or until Until
}

// Check returns an error that lists the valid values if no record can match.
func (f Filter) Check() error {
	switch {
	case f.Event != "" && !slices.Contains(audit.Events(), f.Event):
		return fmt.Errorf("there is no event %q; %s", f.Event, meant(f.Event, audit.Events()))
	case f.Status != "" && !slices.Contains(envelope.Statuses(), f.Status):
		return fmt.Errorf("there is no status %q; %s", f.Status, meant(f.Status, envelope.Statuses()))
	case f.Code != "" && f.Code.Class() == "" && !isClass(f.Code):
		return fmt.Errorf("there is no code %q; %s", f.Code, meantCode(f.Code))
	case f.Last < 0 || f.Last > maxHeld:
		return fmt.Errorf("the last %d records cannot be shown: from 1 to %d", f.Last, maxHeld)
	case !f.Since.IsZero() && !f.Until.IsZero() && f.Until.Before(f.Since):
		return fmt.Errorf("%s, until when, is before %s, since when", f.Until, f.Since)
	}
	return nil
}

// meant suggests the name that is most similar to word, or lists all.
func meant[T ~string](word T, all []T) string {
	names := make([]string, len(all))
	for i, name := range all {
		names[i] = string(name)
	}
	if near, ok := envelope.Nearest(string(word), names); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "use one of " + strings.Join(names, ", ")
}

// meantCode suggests the class or the code of Toolbus that is most similar to word, or lists the classes: tools have
// codes of their own.
func meantCode(word envelope.Code) string {
	classes := make([]string, len(envelope.Classes()))
	for i, class := range envelope.Classes() {
		classes[i] = string(class)
	}
	names := classes
	for _, row := range envelope.Codes() {
		names = append(names, string(row.Code))
	}
	if near, ok := envelope.Nearest(string(word), names); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "the first part of a code is its class: " + strings.Join(classes, ", ")
}

func isClass(c envelope.Code) bool {
	return slices.Contains(envelope.Classes(), envelope.ErrorClass(c))
}

// HasCode reports whether a code is the wanted one, or of the wanted class. It is true if want is "".
func HasCode(code, want envelope.Code) bool {
	return want == "" || code == want || string(code.Class()) == string(want)
}

func (f *Filter) has(r *audit.Record) bool {
	return (f.Tenant == "" || r.Tenant == f.Tenant) &&
		(f.Tool == "" || r.ToolName == f.Tool) &&
		(f.Actor == "" || r.Actor == f.Actor) &&
		(f.Run == "" || r.RunID == f.Run) &&
		(f.Role == "" || r.RoleID == f.Role) &&
		(f.Lane == "" || r.LaneID == f.Lane) &&
		hasScope(r, f.Scope) &&
		!slices.ContainsFunc(f.Policy, func(digest string) bool { return !decidedBy(r, digest) }) &&
		(f.EventID == "" || r.EventID == f.EventID || r.LogSeq > 0 && r.Position().EventID() == f.EventID) &&
		(f.Event == "" || r.Event == f.Event || r.Meaning() == f.Event) &&
		(f.Status == "" || r.Status == f.Status) &&
		HasCode(r.Code, f.Code) &&
		(f.Call == "" || r.CallID == f.Call || r.Ref == f.Call || len(f.Call) >= shortID &&
			strings.HasPrefix(r.CallID, f.Call)) &&
		(f.Since.IsZero() || !r.Timestamp.Before(f.Since)) &&
		(f.Until.IsZero() || !r.Timestamp.After(f.Until))
}

// hasScope reports whether the call of a record needed the keys of a scope, and had them with these values.
func hasScope(r *audit.Record, scope map[string]string) bool {
	has := r.Scope
	if r.Basis != nil {
		has = r.Basis.Scope
	}
	for key, hash := range audit.HashScope(scope) {
		if value, named := has[key]; !named || value != hash {
			return false
		}
	}
	return true
}

// decidedBy reports whether a document of the policy that decided has a digest that begins so.
func decidedBy(r *audit.Record, digest string) bool {
	return slices.ContainsFunc(r.Policies.All(), func(d string) bool { return strings.HasPrefix(d, digest) })
}

// shortID is the number of characters of a call id from which on it is matched as a prefix.
const shortID = 8

// needles returns texts that the line of a matching record contains if it has no escapes. A line without escapes that
// lacks one of them need not be decoded.
func (f *Filter) needles() (all [][]byte) {
	add := func(value, end string) {
		if value != "" && utf8.ValidString(value) && !strings.ContainsFunc(value, escapes) {
			all = append(all, []byte(`"`+value+end))
		}
	}
	for _, start := range append([]string{f.Call}, f.Policy...) {
		add(start, "")
	}
	if strings.HasPrefix(f.EventID, audit.GatePrefix) { // other records name the position in the call log
		add(f.EventID, `"`)
	}
	code, end := string(f.Code), `"`
	if isClass(f.Code) {
		end = "-"
	}
	add(code, end)
	event := f.Event
	if event == audit.ToolJoined || event == audit.ToolReplayed { // form 3 has another name for them
		event = ""
	}
	for _, hash := range audit.HashScope(f.Scope) {
		add(hash, `"`)
	}
	for _, value := range []string{
		f.Run, f.Lane, f.Tool, f.Actor, f.Role, f.Tenant, string(event), string(f.Status),
	} {
		add(value, `"`)
	}
	return all
}

// escapes reports whether JSON text must write a character as an escape.
func escapes(r rune) bool { return r == '"' || r == '\\' || r < ' ' }

// perhaps reports whether the record in line can match, so that line must be decoded.
func perhaps(line []byte, needles [][]byte) bool {
	for _, n := range needles {
		if !bytes.Contains(line, n) {
			return bytes.IndexByte(line, '\\') >= 0
		}
	}
	return true
}
