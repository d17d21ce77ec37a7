package metrics_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/weft-fabric/weft/internal/metrics"
)

const (
	rules      = "../../deploy/prometheus"
	dashboard  = "../../deploy/grafana/weft.json"
	operations = "../../docs/operations.md"
)

// described are the names of all metrics, whether or not there is anything to count.
func described(t *testing.T) []string {
	t.Helper()
	m := metrics.New("test")
	m.Connection(func() bool { return true }, func() uint64 { return 0 })
	m.Loads(nil, nil)
	descs := make(chan *prometheus.Desc)
	go func() {
		m.Registry().Describe(descs)
		close(descs)
	}()
	var names []string
	for d := range descs {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		if name, _, _ := strings.Cut(rest, `"`); strings.HasPrefix(name, "weft_") {
			names = append(names, name)
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %q are described", names)
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var metricName = regexp.MustCompile(`\bweft_[a-z_]+`)

func TestEachMetricThatIsUsedExists(t *testing.T) {
	t.Parallel()
	names := described(t)
	exists := func(name string) bool {
		if slices.Contains(names, name) {
			return true
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, part); ok && strings.HasSuffix(base, "_seconds") {
				return slices.Contains(names, base)
			}
		}
		return false
	}
	for _, path := range []string{dashboard, filepath.Join(rules, "alerts.yml"), filepath.Join(rules, "alerts_test.yml"), operations} {
		used := metricName.FindAllString(read(t, path), -1)
		if len(used) < 10 {
			t.Errorf("%s uses %d metrics", path, len(used))
		}
		for _, name := range used {
			if !exists(name) {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
	}
}

func TestEachMetricIsExplainedAndShown(t *testing.T) {
	t.Parallel()
	manual, shown := read(t, operations), read(t, dashboard)
	for _, name := range described(t) {
		if !strings.Contains(manual, "`"+name+"`") {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
		if !strings.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

func TestEachAlertIsExplained(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(rules, "alerts.yml"))), &file); err != nil {
		t.Fatal(err)
	}
	manual, tests := read(t, operations), read(t, filepath.Join(rules, "alerts_test.yml"))
	count := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			count++
			if !strings.Contains(manual, "**"+rule.Alert+".**") {
				t.Errorf("docs/operations.md does not explain alert %s", rule.Alert)
			}
			if !strings.Contains(tests, "alertname: "+rule.Alert) {
				t.Errorf("alerts_test.yml does not test alert %s", rule.Alert)
			}
		}
	}
	if count < 10 {
		t.Errorf("there are %d alerts", count)
	}
}

func TestRulesPassPromtool(t *testing.T) {
	t.Parallel()
	if out := promtool(t, rules, "", "check", "rules", "alerts.yml"); !strings.Contains(out, "SUCCESS: 14 rules found") {
		t.Errorf("promtool check rules said:\n%s", out)
	}
	promtool(t, rules, "", "test", "rules", "alerts_test.yml")
	promtool(t, rules, "", "check", "config", "prometheus.yml")
}

func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	var board struct {
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q is not whole", p.ID, p.Title)
		}
		ids[p.ID] = true
	}
	if board.UID != "weft" || len(ids) < 10 {
		t.Errorf("uid %q, %d panels", board.UID, len(ids))
	}
}
