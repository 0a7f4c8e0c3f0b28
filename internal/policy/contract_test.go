package policy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// section returns the lines of a section of testdata/003.txt, the literal words of the contract.
func section(t *testing.T, heading string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/003.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), heading+"\n\n")
	if !found {
		t.Fatalf("there is no section %s", heading)
	}
	for line := range strings.Lines(after) {
		switch line = strings.TrimSpace(line); {
		case line == "" && len(lines) > 0:
			return lines
		case line != "" && !strings.HasSuffix(line, ":"):
			lines = append(lines, strings.TrimPrefix(line, "- "))
		}
	}
	return lines
}

// The steps of the decision are those of the contract, in its order.
func TestStepsOfTheContract(t *testing.T) {
	steps := section(t, "EXECUTION PIPELINE (MANDATORY ORDER)")
	for step, words := range map[int]string{
		policy.StepRun:      "3. verify run_id exists",
		policy.StepLane:     "4. validate lane authorization (roles.yaml + lanes.yaml)",
		policy.StepTool:     "5. validate tool is registered (tool_registry.yaml)",
		policy.StepPermit:   "6. validate lane permits tool_name (allowlist)",
		policy.StepScope:    "7. validate required scope keys",
		policy.StepProhibit: "8. enforce prohibition rules (lane + tool)",
	} {
		if len(steps) != 13 || steps[step-1] != words {
			t.Errorf("step %d is not %q", step, words)
		}
	}
}

// Each denial condition of the contract has a code that the decision returns. Locks are no part of a policy set.
func TestDenialsOfTheContract(t *testing.T) {
	denials, err := os.ReadFile("testdata/denials.golden")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{
		"lane not allowed for role": "A-AUTH-LANE", "tool not allowed in lane": "A-AUTH-TOOL",
		"tool is unregistered or disabled": "I-REQ-TOOL_UNKNOWN P-PRECOND-TOOL_DISABLED",
		"required scope missing":           "P-PRECOND-SCOPE_KEY", "prohibited action requested": "A-AUTH-PROHIBITED",
		"run_id invalid": "P-PRECOND-RUN_UNKNOWN",
		"run status not active / not in allowed state for this lane": "P-PRECOND-RUN_STATE",
		"policy versions mismatch with run_record":                   "P-PRECOND-POLICY_VERSION",
		"system safety lock engaged":                                 "",
	}
	conditions := section(t, "DENIAL CONDITIONS (MANDATORY)")
	if len(conditions) != len(codes) {
		t.Errorf("conditions %q", conditions)
	}
	for _, condition := range conditions {
		all, known := codes[condition]
		if !known {
			t.Errorf("no code for %q", condition)
		}
		for code := range strings.FieldsSeq(all) {
			if !strings.Contains(string(denials), code+" ") {
				t.Errorf("%s: no decision is %s", condition, code)
			}
		}
	}
}

// The registry has the nine fields of the contract by their names, and requires what must be defined.
func TestRegistryOfTheContract(t *testing.T) {
	var schema struct {
		Properties struct {
			Tools struct {
				Items struct {
					Required   []string       `json:"required"`
					Properties map[string]any `json:"properties"`
				} `json:"items"`
			} `json:"tools"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(policy.AllDocuments()[2].Schema, &schema); err != nil {
		t.Fatal(err)
	}
	entry, fields := schema.Properties.Tools.Items, section(t, "TOOL REGISTRY REQUIREMENT")
	if len(fields) != 9 {
		t.Errorf("fields %q", fields)
	}
	for _, field := range fields {
		name, optional := strings.CutSuffix(field, " (if any)")
		if entry.Properties[name] == nil || slices.Contains(entry.Required, name) == optional {
			t.Errorf("%s is not a field, or its presence is not what the contract says", name)
		}
	}
}
