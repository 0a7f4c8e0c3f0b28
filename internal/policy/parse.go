package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Parse reads the documents of a set. If they have problems, the error is of type [tool.Problems] and lists all of
// them, with file, line, column and fix.
func Parse(d Documents) (*Set, error) { return parse(d, [][]byte{d.ToolRegistry}) }

// parse is [Parse] with the registry in parts.
func parse(d Documents, registry [][]byte) (*Set, error) {
	p, err := examine(d, registry)
	if err != nil {
		return nil, err
	}
	if problems := p.problems(); len(problems) > 0 {
		return nil, problems
	}
	return p.set, nil
}

// examine reads and checks the documents, and keeps what can be read of those with problems.
func examine(d Documents, registry [][]byte) (*parser, error) {
	if len(d.Roles)+len(d.Lanes)+len(d.ToolRegistry) > MaxSet {
		return nil, tool.Problems{unreadable(ToolRegistryFile, errTooLarge)}
	}
	p := &parser{set: &Set{versions: d.Versions()}}
	if err := p.read(d, registry); err != nil {
		return nil, err
	}
	p.checkRoles()
	p.checkLanes()
	p.checkEntries()
	return p, nil
}

// parser turns documents into a Set.
type parser struct {
	set                    *Set
	roles, lanes, registry *tool.Document
	laneIDs                map[string]bool
}

func (p *parser) read(d Documents, registry [][]byte) error {
	var roles struct {
		Roles []Role `json:"roles"`
	}
	var lanes struct {
		Lanes []Lane `json:"lanes"`
	}
	all := AllDocuments()
	var err1, err2, err3 error
	p.roles, err1 = all[0].read(d.Roles, &roles)
	p.lanes, err2 = all[1].read(d.Lanes, &lanes)
	err3 = p.readParts(all[2], registry)
	p.set.Roles, p.set.Lanes = roles.Roles, lanes.Lanes
	p.set.roles, p.set.lanes, p.set.registry = p.roles, p.lanes, p.registry
	p.laneIDs = make(map[string]bool, len(lanes.Lanes))
	for _, lane := range lanes.Lanes {
		if lane.ID != "" {
			p.laneIDs[lane.ID] = true
		}
	}
	return errors.Join(err1, err2, err3)
}

// problems returns the problems of all three documents.
func (p *parser) problems() tool.Problems {
	return slices.Concat(p.roles.Problems(), p.lanes.Problems(), p.registry.Problems())
}

func (p *parser) checkRoles() {
	seen := newNames(p.roles, "role")
	for i, role := range p.set.Roles {
		at := jsontext.Pointer(fmt.Sprintf("/roles/%d", i))
		seen.add(at+"/role_id", role.ID)
		p.known(p.roles, at+"/allowed_lanes", role.AllowedLanes)
	}
}

func (p *parser) checkLanes() {
	seen := newNames(p.lanes, "lane")
	for i := range p.set.Lanes {
		lane, at := &p.set.Lanes[i], jsontext.Pointer(fmt.Sprintf("/lanes/%d", i))
		seen.add(at+"/lane_id", lane.ID)
		for j, flag := range lane.ProhibitedFlags {
			if message, hint := wrongFlag(flag); message != "" {
				p.lanes.Fail(item(at+"/prohibited_flags", j), message, hint)
			}
		}
		if lane.AllowedRunStates == nil {
			lane.AllowedRunStates = []RunState{RunActive}
		}
	}
}

func (p *parser) checkEntries() {
	seen := newNames(p.registry, "tool")
	for i, e := range p.set.Entries {
		at := jsontext.Pointer(fmt.Sprintf("/tools/%d", i))
		seen.add(at+"/tool_name", e.ToolName)
		p.known(p.registry, at+"/allowed_lanes", e.AllowedLanes)
		for j, flag := range e.ProhibitedFlags {
			if kind, _ := splitFlag(flag); kind != flagArgument {
				p.registry.Fail(item(at+"/prohibited_flags", j), fmt.Sprintf("%q is a flag of lanes", flag),
					"prohibit it in "+LanesFile+"; an entry has names of arguments")
			}
		}
		if e.Versions == "" {
			continue
		}
		if _, err := semver.NewConstraint(e.Versions); err != nil {
			p.registry.Fail(at+"/versions", fmt.Sprintf("%q is not a semver range", e.Versions),
				"write an exact version such as 1.2.3, or a range such as ^1.2, 1.x or >=1.2 <2")
		}
	}
}

// known reports the names at a pointer that no lane has. If the lanes could not be read at all, it reports none.
func (p *parser) known(in *tool.Document, at jsontext.Pointer, lanes []string) {
	if len(p.laneIDs) == 0 && len(p.lanes.Problems()) > 0 {
		return
	}
	for j, lane := range lanes {
		if !p.laneIDs[lane] {
			in.Fail(item(at, j), fmt.Sprintf("%s has no lane %q", LanesFile, lane),
				tool.DidYouMean(lane, slices.Sorted(maps.Keys(p.laneIDs))))
		}
	}
}

func item(at jsontext.Pointer, i int) jsontext.Pointer {
	return jsontext.Pointer(fmt.Sprintf("%s/%d", at, i))
}

// names finds names that a document has twice.
type names struct {
	in   *tool.Document
	kind string
	seen map[string]bool
}

func newNames(in *tool.Document, kind string) names { return names{in, kind, map[string]bool{}} }

func (n names) add(at jsontext.Pointer, name string) {
	if n.seen[name] && name != "" {
		n.in.Fail(at, fmt.Sprintf("the %s %q is there twice", n.kind, name), "keep one of the two")
	}
	n.seen[name] = true
}

// wrongFlag returns the problem of a prohibited flag of a lane, or "".
func wrongFlag(flag string) (message, hint string) {
	switch kind, name := splitFlag(flag); {
	case strings.TrimSpace(name) == "":
		return fmt.Sprintf("%q names nothing", flag), "write a name after the colon, for example tag:dangerous"
	case kind == flagEffect && !slices.Contains(effectNames(), name):
		return fmt.Sprintf("%q is not an effect", name), tool.DidYouMean(name, effectNames())
	}
	return "", ""
}
