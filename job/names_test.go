package job_test

// The names that become parts of NATS subjects, streams and keys: what each may
// hold, where its length ends, and that a refusal quotes a bad name on one line.

import (
	"strings"
	"testing"

	"github.com/weft-fabric/weft/job"
)

func TestNames(t *testing.T) {
	t.Parallel()
	const (
		id     = " is not 1 to 128 of A-Z a-z 0-9 _ = -"
		stage  = " is not a-z or 0-9 followed by up to 63 of a-z 0-9 _ -"
		worker = " is not 1 to 64 of A-Z a-z 0-9 _ -"
	)
	tests := []struct {
		rule  string
		check func(string) error
		name  string
		want  string // the reason, empty if the name is good
	}{
		{"id of every allowed kind", job.CheckID, "aZ09_=-", ""},
		{"id of one byte", job.CheckID, "=", ""},
		{"id at its longest", job.CheckID, strings.Repeat("x", 128), ""},
		{"id empty", job.CheckID, "", "id must not be empty"},
		{"id too long", job.CheckID, strings.Repeat("x", 129), `id "` + strings.Repeat("x", 80) + `"...` + id},
		{"id with a dot", job.CheckID, "a.b", `id "a.b"` + id},
		{"id with a wildcard", job.CheckID, "a*", `id "a*"` + id},
		{"id with a line break", job.CheckID, "a\nb", `id "a\nb"` + id},
		{"id with a letter beyond ASCII", job.CheckID, "é", `id "é"` + id},
		{"id with a zero byte", job.CheckID, "\x00", `id "\x00"` + id},

		{"stage of every allowed kind", job.CheckStage, "a0_-z", ""},
		{"stage that begins with a digit", job.CheckStage, "0", ""},
		{"stage at its longest", job.CheckStage, strings.Repeat("s", 64), ""},
		{"stage empty", job.CheckStage, "", "stage must not be empty"},
		{"stage too long", job.CheckStage, strings.Repeat("s", 65), `stage "` + strings.Repeat("s", 65) + `"` + stage},
		{"stage with a capital", job.CheckStage, "Build", `stage "Build"` + stage},
		{"stage that begins with a dash", job.CheckStage, "-a", `stage "-a"` + stage},
		{"stage that begins with an underscore", job.CheckStage, "_a", `stage "_a"` + stage},
		{"stage with an equals sign", job.CheckStage, "a=b", `stage "a=b"` + stage},
		{"stage with a space", job.CheckStage, "a b", `stage "a b"` + stage},

		{"worker of every allowed kind", job.CheckWorker, "rn_A-9", ""},
		{"worker that begins with a dash", job.CheckWorker, "-", ""},
		{"worker at its longest", job.CheckWorker, strings.Repeat("W", 64), ""},
		{"worker empty", job.CheckWorker, "", "worker_id must not be empty"},
		{"worker too long", job.CheckWorker, strings.Repeat("W", 65), `worker_id "` + strings.Repeat("W", 65) + `"` + worker},
		{"worker with an equals sign", job.CheckWorker, "a=b", `worker_id "a=b"` + worker},
		{"worker with a subject's end", job.CheckWorker, "a>", `worker_id "a>"` + worker},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, tt.check(tt.name), tt.want)
		})
	}
}

// wantInvalid checks that err is invalid_job for that reason, or nil for none,
// and that its text is one line.
func wantInvalid(t *testing.T, err error, reason string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	refused := refusal(t, err)
	if refused.Code != job.CodeInvalidJob || refused.Reason != reason {
		t.Errorf("got %s %q,\nwant invalid_job %q", refused.Code, refused.Reason, reason)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("the error has more than one line: %q", err)
	}
}

func TestLongBadNamesAreCutAtARune(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("x", 79) + "é" + strings.Repeat("y", 1000)
	wantInvalid(t, job.CheckID(name), `id "`+strings.Repeat("x", 79)+`"... is not 1 to 128 of A-Z a-z 0-9 _ = -`)
}
