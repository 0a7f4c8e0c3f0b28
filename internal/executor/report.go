package executor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Limits of what a tool reports of itself. A manifest declares at most 64 names of each type.
const (
	maxReportText = 256 // bytes of the value of an attribute, and of a name that is not declared
	maxEvents     = 100 // of one run
)

// reporter checks what the tool of one run reports. It is not safe for concurrent use, and never ends the run.
type reporter struct {
	manifest *tool.Manifest
	events   int // so far
}

// check returns the report, or a dropped one with the reason.
func (p *reporter) check(said tool.Report) *call.Report {
	declared := map[string][]string{
		"metric": p.manifest.Metrics, "attribute": p.manifest.Attributes, "event": p.manifest.Events,
	}[said.Type]
	switch {
	case said.Unknown != "":
		return dropped(said, fmt.Sprintf("it has no name, and the unknown member %.40q", said.Unknown))
	case said.Name == "":
		return dropped(said, "it has no name, or cannot be read")
	case !slices.Contains(declared, said.Name):
		return dropped(said, "the manifest does not declare it")
	case said.Type == "metric":
		return measured(said)
	case said.Type == "attribute":
		return attribute(said)
	}
	if p.events++; p.events > maxEvents {
		return dropped(said, "the run has reported too many events")
	}
	return &call.Report{Kind: call.ReportEvent, Name: said.Name}
}

func dropped(said tool.Report, reason string) *call.Report {
	return &call.Report{Kind: call.ReportDropped, Name: ijson.Clip(said.Name, maxReportText), Text: reason}
}

// measured returns the report of a metric. A counter takes no negative value.
func measured(said tool.Report) *call.Report {
	n, ok := number(said.Value)
	kind := call.ReportKind(cmp.Or(said.Kind, string(call.ReportCounter)))
	switch {
	case !ok:
		return dropped(said, "its value is not a finite number")
	case kind != call.ReportCounter && kind != call.ReportHistogram:
		return dropped(said, "its kind is neither counter nor histogram")
	case n < 0 && kind == call.ReportCounter:
		return dropped(said, "its value is negative, and it is a counter")
	}
	return &call.Report{Kind: kind, Name: said.Name, Number: n}
}

// attribute returns the report of an attribute, whose value is a number or a text.
func attribute(said tool.Report) *call.Report {
	r := &call.Report{Kind: call.ReportAttribute, Name: said.Name}
	if n, ok := number(said.Value); ok {
		r.Number = n
		return r
	}
	text, err := jsontext.AppendUnquote(nil, said.Value)
	if err != nil || len(text) == 0 {
		return dropped(said, "its value is neither a text nor a finite number")
	}
	r.Text = ijson.Clip(string(text), maxReportText)
	return r
}

// number returns a finite JSON number.
func number(value jsontext.Value) (n float64, ok bool) {
	if value.Kind() != '0' {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	return n, err == nil
}
