package job

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// plainSeeds are records and what is nearly one.
var plainSeeds = []string{
	`{"id":"a","stage":"s","input_ref":"data:,x","input_revision":3,"key":"k","key_order":7,"payload":{"n":[1,"}"]},"priority":2,"max_attempts":3,"attempt":1,"fence":2,` +
		`"state":"leased","worker_id":"rn_1","lease_expires_at":"2026-01-02T03:04:05.006Z","created_at":"2026-01-02T03:04:05+01:00","updated_at":"2026-01-02T03:04:05Z"}`,
	`{"id":"a","state":"succeeded","output_ref":"data:,","finished_at":"2026-01-02T03:04:05Z"}`,
	` { "id" : "a" , "state" : "failed" , "reason" : "no" } `,
	`{"id":"a","state":"waiting","available_at":"9999-12-31T23:59:59-01:00"}`,
	`{"id":"a","state":"waiting","payload":null}`,
	`{"id":"a","state":"waiting","payload":nope}`,
	`{"id":"a","state":"waiting","priority":99999999999999999999}`,
	`{"id":"a","state":"waiting","attempt":01}`,
	`{"id":"a","state":"waiting","id":"b"}`,
	`{"id":"a","state":"waiting","odd":1}`,
	`{"id":"a","state":"waiting","labels":{"a":1}}`,
	`{"id":"a","state":[waiting]}`,
	`{"id":"a","state":"odd"}`,
	`{"id":"\u0061","state":"waiting"}`,
	`{"id":"a","state":"waiting","labels":{"a":"b"},"timeout":"1m","dependencies":["b"],"waiting_on":["b"],"on_dependency_failure":"cancel"}`,
	`{"id":"a","state":"waiting","labels":{},"dependencies":[],"waiting_on":null}`,
	`{"id":"a","state":"failed","attempts_log":[{"number":1,"fence":1,"worker":"w","started":"2026-01-02T03:04:05+01:00","outcome":"failed","reason":"no"}]}`,
	`{"id":"a","state":"waiting","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1"}`,
}

// What is read in one walk must be what taking the object apart reads.
func FuzzPlainIsDecode(f *testing.F) {
	for _, text := range plainSeeds {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		quick, ok := decodePlain(text)
		if !ok {
			return
		}
		o, err := parseObject(text)
		if err != nil {
			t.Fatalf("%q is no object: %v", text, err)
		}
		slow, err := recordOf(o)
		if err != nil || !reflect.DeepEqual(quick, slow) {
			t.Fatalf("%q is read as\n%#v, want\n%#v, %v", text, quick, slow, err)
		}
	})
}

func TestRecordsOfTheFabricAreReadInOneWalk(t *testing.T) {
	t.Parallel()
	for i, want := range []bool{true, true, true, false, false, false, false, false, false, false, false, false, false, false, true, true, true, true} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if _, ok := decodePlain([]byte(plainSeeds[i])); ok != want {
				t.Errorf("%s: %v, want %v", strings.TrimSpace(plainSeeds[i]), ok, want)
			}
		})
	}
}
