package ijson_test

import (
	"fmt"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

func ExampleTable() {
	type question struct {
		Fn        string `json:"fn"`
		Locale    string `json:"locale,omitzero"`
		TimeoutMS int64  `json:"timeout_ms"`
	}
	table := ijson.TableOf[question]()
	text, ok := table.Append(nil, &question{Fn: `say "hello"`, TimeoutMS: 1500}, nil)
	fmt.Println(string(text), ok)

	var q question
	fmt.Println(table.Read(string(text), &q, nil), q)

	_, ok = table.Append(nil, &question{Fn: "not UTF-8: \xff"}, nil)
	fmt.Println(ok, table.Read(`{"fn": "x", "timeout_ms": 1}`, new(question), nil))
	// Output:
	// {"fn":"say \"hello\"","timeout_ms":1500} true
	// true {say "hello"  1500}
	// false false
}
