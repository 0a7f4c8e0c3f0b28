package toolbus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
)

type person struct {
	Name string `json:"name"`
}

func hello(_ context.Context, _ *toolbus.Run, who person) (string, error) {
	return "hello " + who.Name, nil
}

// All that is wrong with a tool is said at once, and again to whoever did not look.
func TestAddSaysAllThatIsWrong(t *testing.T) {
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "good", Class: toolbus.Pure}, hello); err != nil {
		t.Fatal(err)
	}
	var later []string
	for name, test := range map[string]struct {
		add  func() error
		want []string
	}{
		"everything": {
			func() error {
				return toolbus.Add(tools, toolbus.Tool{
					ID: "No Id", Function: "No Fn", Version: "1", Class: "sometimes", Pool: "No Pool",
					Timeout: -time.Second, Concurrency: -1, OutputBytes: -1, Retention: -time.Hour,
					Errors: []*toolbus.ToolError{{Name: "No Name", Class: "X", HTTPStatus: 200}},
				}, func(context.Context, *toolbus.Run, chan int) (string, error) { return "", nil })
			},
			[]string{
				`"No Id" is not a tool id`, `"No Fn" is not a function name`, `"1" is not a semantic version`,
				`the class is "sometimes"`,
				`"No Pool" is not a pool name`, "timeout_ms_default is -1000", "concurrency_max is -1", "output_bytes_max is -1",
				"retention_s is -3600", `"No Name" is not an error name`, `"X" is not a value of errors[0].class`,
				"http_status is 200",
				"no schema of the input", "chan int",
			},
		},
		"an error that is none, and times that round to the default": {
			func() error {
				return toolbus.Add(tools, toolbus.Tool{
					ID: "rounded", Class: toolbus.Pure, Errors: []*toolbus.ToolError{nil},
					Retention: -time.Millisecond, Timeout: -time.Microsecond,
				}, hello)
			},
			[]string{"errors[0].code is required", "retention_s is -1", "timeout_ms_default is -1"},
		},
		"nothing": {
			func() error {
				return toolbus.Add[person, string](tools, toolbus.Tool{}, nil)
			},
			[]string{"there is no function", "tool_id is required", `the class is ""`},
		},
		"another tool of the same id": {
			func() error {
				return toolbus.Add(tools, toolbus.Tool{ID: "good", Class: toolbus.Idempotent, Function: "other"}, hello)
			},
			[]string{"differ in Function, FunctionDescription, Request and Response, and in nothing else"},
		},
		"the same function": {
			func() error {
				return toolbus.Add(tools, toolbus.Tool{ID: "good", Class: toolbus.Pure, Function: "run"}, hello)
			},
			[]string{"there is a function run already"},
		},
		"a schema that is none": {
			func() error {
				about := toolbus.Tool{ID: "schema", Class: toolbus.Pure, Request: []byte(`{"type":"thing"}`)}
				return toolbus.Add(tools, about, hello)
			},
			[]string{"run.request.json"},
		},
		"tags that the schema does not know": {
			func() error {
				type tagged struct {
					N int `json:"n,string"`
				}
				about := toolbus.Tool{ID: "tags", Class: toolbus.Pure}
				return toolbus.Add(tools, about, func(context.Context, *toolbus.Run, tagged) (string, error) { return "", nil })
			},
			[]string{`is {"n":"0"}, which its schema refuses at "/n"`},
		},
	} {
		err := test.add()
		if err == nil {
			t.Errorf("%s: added", name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is missing in:\n%v", name, want, err)
			}
		}
		if strings.Contains(err.Error(), "tool.yaml") {
			t.Errorf("%s: it names a file that there is not: %v", name, err)
		}
		later = append(later, err.Error())
	}
	conn := new(toolbus.Conn)
	for _, make := range []func() error{
		func() error { _, err := conn.Executor(tools, toolbus.ExecutorOptions{}); return err },
		func() error { _, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{}); return err },
	} {
		err := make()
		for _, want := range later {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in:\n%v", want, err)
			}
		}
	}
}
