package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// inventories waits firstInventory for the first answer, and nextInventory for another one after each answer.
const (
	firstInventory = 2 * time.Second
	nextInventory  = 300 * time.Millisecond
)

// inventories asks all dispatchers for the tools that they have loaded.
func inventories(ctx context.Context, inbox *rpc.Inbox) (all []envelope.Inventory, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err = inbox.AskAll(ctx, operation.Inventory.Name, firstInventory, nextInventory, func(body []byte) {
		var one envelope.Inventory
		if format.Unmarshal(format.Message, body, &one) == nil {
			all = append(all, one)
		}
	})
	return all, err
}

// diagnoseEach asks all dispatchers, and returns the checks of what must hold for each of them. tokenless means that
// doctor shows no token: then each dispatcher that answers authenticates nobody.
func diagnoseEach(ctx context.Context, inbox *rpc.Inbox, tokenless bool) []Check {
	all, err := inventories(ctx, inbox)
	if err != nil || len(all) == 0 {
		return []Check{envelope.Doubtful("tools", "no dispatcher says which tools it has loaded",
			"run doctor of the version that the dispatchers are of")}
	}
	slices.SortFunc(all, func(a, b envelope.Inventory) int { return cmp.Compare(a.Instance, b.Instance) })
	checks := append([]Check{diagnoseAuth(all, tokenless), diagnoseTools(all)}, diagnoseSettings(all)...)
	if len(all) == 1 && all[0].Profile != "" {
		checks = append(checks, envelope.Doubtful("redundancy", "one dispatcher: if it dies, no call is admitted",
			"start a second one, if possible on another machine"))
	}
	return checks
}

// diagnoseAuth names the dispatchers that authenticate nobody.
func diagnoseAuth(all []envelope.Inventory, tokenless bool) Check {
	var open []string
	for _, i := range all {
		if i.NoAuth || tokenless {
			open = append(open, i.Instance)
		}
	}
	if len(open) > 0 {
		return envelope.Failed("authentication", "any client of the server may call any tool as any actor: no secrets at "+
			strings.Join(open, ", "), "make secrets with `toolbus keys init DIR`, and start servers and dispatchers with "+
			"them: docs/security.md")
	}
	return envelope.Well("authentication", fmt.Sprintf("dispatchers: %d, each asks for a token", len(all)))
}

// diagnoseTools compares the tools that the dispatchers have loaded. If they differ in a tool, the result of a call
// depends on the dispatcher that receives it.
func diagnoseTools(all []envelope.Inventory) Check {
	if differ := differences(all); len(differ) > 0 {
		says := fmt.Sprintf("%d dispatchers have loaded different tools: %s", len(all), strings.Join(differ, "; "))
		return envelope.Failed("tools", says,
			"start all dispatchers with the same tools: until then calls of these end now one way and now the other")
	}
	says := fmt.Sprintf("dispatchers: %d, each with the same %s", len(all), countTools(len(all[0].Tools)))
	return envelope.Well("tools", says)
}

// diagnoseSettings compares the settings that all dispatchers must have alike. Those of builds that do not tell them
// are not compared. It returns no check if no dispatcher tells them.
func diagnoseSettings(all []envelope.Inventory) []Check {
	all = slices.DeleteFunc(slices.Clone(all), func(i envelope.Inventory) bool { return i.Settings == nil })
	if len(all) == 0 {
		return nil
	}
	if differ := differing(all); len(differ) > 0 {
		return []Check{envelope.Failed("settings", "dispatchers have different ones: "+strings.Join(differ, "; "),
			"start all dispatchers with the same flags: until then calls end now one way and now the other")}
	}
	return []Check{envelope.Well("settings", fmt.Sprintf("dispatchers: %d, each with --sync %s, and the same limits and "+
		"defaults", len(all), all[0].Settings["--sync"]))}
}

// differing returns one sentence for each setting that is not the same in all dispatchers.
func differing(all []envelope.Inventory) (says []string) {
	for _, flag := range slices.Sorted(maps.Keys(all[0].Settings)) {
		at := map[string][]string{} // instances, by value
		for _, i := range all {
			if value, ok := i.Settings[flag]; ok {
				at[value] = append(at[value], i.Instance)
			}
		}
		if len(at) > 1 {
			says = append(says, flag+" is "+each(at))
		}
	}
	return says
}

// each names the instances of each value.
func each(at map[string][]string) string {
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(at)) {
		parts = append(parts, value+" at "+strings.Join(at[value], ", "))
	}
	return strings.Join(parts, " and ")
}

// maxDifferences is the largest number of tools that one check names.
const maxDifferences = 10

// differences returns one sentence for each tool that is not the same in all dispatchers: what each of them has loaded.
func differences(all []envelope.Inventory) (says []string) {
	ids := map[string]bool{}
	for _, i := range all {
		for id := range i.Tools {
			ids[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		has := map[string][]string{} // instances, by what they have loaded
		for _, i := range all {
			if have := loaded(i, id); have != "" {
				has[have] = append(has[have], i.Instance)
			}
		}
		switch {
		case len(has) < 2:
		case len(says) == maxDifferences:
			return append(says, "and more")
		default:
			says = append(says, id+" is "+each(has))
		}
	}
	return says
}

// loaded returns what a dispatcher has loaded of a tool: its version and digest, or "missing". It returns "" if that is
// unknown, because the list of tools was cut short before this tool.
func loaded(i envelope.Inventory, id string) string {
	if have, ok := i.Tools[id]; ok {
		return have
	}
	if i.More && id > slices.Max(slices.Collect(maps.Keys(i.Tools))) {
		return ""
	}
	return "missing"
}
