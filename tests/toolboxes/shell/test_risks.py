"""Which commands only read, and which ask: two tables and the promise behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.toolboxes.shell.commands import parse
from leonidas_tools.toolboxes.shell.risks import _READS, risks_of

PASSES = r"""
ls -la
pwd && ls
cd src && ls -R | head -50
cat README.md 2>/dev/null
tail -n 100 log/dev.log
sed -n '120,180p' src/app.py
sed 10q file
awk -F, '{print $1, $NF}'
grep -rn "def main" src
grep -rn --include='*.py' 'import re' . | head -20
grep -v '#' file | sort | uniq -c | sort -rn
rg -n "class .*Error" src tests
rg --files -g '*.ts' | wc -l
fd --extension py name src
find . -name '*.py' -not -path './.venv/*' | sort
find src -type f \( -mtime -5 -o -newer setup.py \)
git status
git --no-pager -C sub status --short -uno
git diff HEAD~3 --stat -- src
git log --oneline -20
git log -p -1 -- src/app.py
git show HEAD --stat
git branch -a
git blame -L 10,20 src/app.py
git config --get user.name
wc -l src/*.py
cut -d, -f2 data.csv | tail -n +2
python3 --version
command -v rg || echo none
diff -u a.txt b.txt
jq '.dependencies' package.json
date +%s
date -u -d yesterday
echo 'rm -rf /' "and \"more\" \$x"
echo a\ b "costs 5$" é
printf '%s\n' "$HOME" a
printf '%-5.2f%% %05d\n' 1 2
echo a >> /dev/null 2>&1
cat < file
! grep -q x file
(cd x; ls) | wc -l
{ ls; pwd; } &
echo "$(wc -l < file)" $(ls | head -1)
for f in src/*.py; do echo "== $f"; head -5 "$f"; done
if [ -f a ]; then cat a; elif test -d b; then :; else echo no; fi
until [ ! -e go ]; do sleep 1; done
[ -n "$x" ] && echo set
""".strip().splitlines()
CHANGES = r"""
rm file
mkdir -p a/b
touch x
chmod +x script
cp a b
mv a b
echo x > file
ls >> file
cat a > "$x"
cat <<'EOF' > file
sed -i 's/a/b/' file
tee file
git add -A
git commit -m x
git push --force
git checkout .
git stash
git branch -D x
git branch new
git tag v1
git remote add x y
python3 script.py
pytest -q
make
npm test
curl https://example.org
sudo ls
docker ps
kill 1
env
x=1
export A=1
""".strip().splitlines()
"""Commands that are what they look like."""

OPTIONS = r"""
find . -delete
find . -exec rm {} +
find . -ok rm {} ;
find . -fprint x
find . -fls x
find *.py
find "$x"
grep -r --include=a --unknown x
rg --pre ./x y
rg --pre=./x y
rg --hostname-bin ./x y
rg -z x
rg "$x"
sort -o file file
sort --output=file file
sort --compress-program=./x file
sort --compress-prog=./x file
sort -uofile file
sort -T x f
uniq a b
uniq $x
date -s tomorrow
date 010101
tree -o file
file -C -m x
diff -l a b
fd -x rm
fd --exec rm
fd -l
sed -n '1e rm' y
sed 's/x/rm y/e' z
sed -n 1,5p -e '1e rm'
sed -f x y
sed "$x" y
awk 'BEGIN { system("rm x") }'
awk '{ print | "sh" }' x
awk -f x
awk -F '{print $1}' program
git -c core.fsmonitor=./x status
git -c alias.x='!rm y' x
git --exec-path=x status
git --git-dir=x status
git -C $x status
git diff --ext-diff
git diff --output=file
git diff -O x
git log --textconv
git log --output file
git log --outp=file
git show "$x"
git grep -O x
git grep --open-files-in-pager=./x y
git cat-file --filters x
git config core.pager ./x
git config --get x --type=y
git stash list x
git reflog expire --all
git -p log
git $x
command rm -rf x
command
python3 --version -c 'x'
printf -v PATH x
printf "$x" y
printf 12345%n PATH; ls
printf 1%ln PATH
printf "a$x" PATH
printf a* PATH
[ -v x ]
[ "$a" 'a[$(rm x)]' ]
[ -f $x ]
test "$x" y
wait -p x
read PATH
fd "$x"
""".strip().splitlines()
"""Arguments with which a program that reads writes, or runs another program."""

UNCERTAIN = [
    *r"""
\rm -rf x
r''m -rf x
r``m x
$'\x72\x6d' x
$"rm" x
/bin/ls
./ls
{ls,-a}
{rm,x}
/???/rm x
$x
"$x" y
$(echo rm) x
`echo rm` x
echo `rm x`
echo "`rm x`"
echo "$(rm x)"
echo $(ls $(rm x))
x=$(rm x)
PATH=. ls
LD_PRELOAD=./x.so ls
GIT_EXTERNAL_DIFF=./x git diff
RIPGREP_CONFIG_PATH=x rg y
TAR_OPTIONS=x ls
a[0]=1 ls
for PATH in .; do ls; done
for ((;;)); do ls; done
select x in a; do ls; done
case a in a) ls;; esac
f() { ls; }
function f { ls; }
time ls
coproc ls
bash -c 'ls'
sh -c ls
eval ls
exec ls
. ./x
source x
trap ls EXIT
alias ls=rm
shopt -s expand_aliases
set -a
hash -p /bin/rm ls
enable -f x.so y
nohup ls
setarch -R rm -rf y
xargs ls
timeout 5 ls
env A=1 ls
busybox ls
bash --init-file <(echo rm -rf y) -ic : </dev/null
readarray -c1 -C'rm -rf y #' a <<< x
[[ -n x ]]
[[ -v 'a[$(rm x)]' ]]
[ a > b ]
[ a =~ b ]
(( 1 ))
echo $((1 + 1))
echo $((a[$(rm x)]))
echo ${x:-$(rm x)}
echo ${x@P}
echo ${x#$(rm x)}
echo ${!x}
echo "${a[$(rm x)]}"
echo $@
cat <(rm x)
cat > >(rm x)
cat <<< x
cat < /dev/tcp/host/80
echo x > /dev/tcp/host/80
cat < $x
{fd}>/dev/null ls
ls > /dev/null -R
2>/dev/null rm x
ls # comment
# comment
ls;; ls
ls &&
if true
ls )
echo 'unclosed
echo "unclosed
:(){ :|:& };:
""".strip().splitlines(),
    "# x \\\nr\\\nm -rf y",
    "r\\\nm -rf y",
    "ls \\\n-la",
    "ls # c\nrm x",
    "x=$(: # c\n\\rm '-r' x)",
    "echo $(: # c\n\\rm -r x)",
    "cat <<E\n$(rm x)\nE",
    "cat <<E\nrm x \\",
    "bash <<'E'\nrm x\nE",
    "ls\nrm x",
    "(ls\nrm x)",
    "",
    " ",
    "\n",
    "ls\r\nrm x",
    "ls \x1b[2K",
    "l\u200bs x",
    "ls \u202e x",
    "ls\x00",
    "ls \u2028 rm",
    "ls\u00a0x",
    "ls >&\uff12",
    "ls \ud800",
]
"""Texts that hide a command, or that Bash and the grammar may read in different ways."""


@pytest.mark.parametrize("command", PASSES)
def test_what_only_reads_passes(command):
    assert risks_of(parse(command)) == []


@pytest.mark.parametrize("command", [*CHANGES, *OPTIONS, *UNCERTAIN], ids=ascii)
def test_everything_else_asks(command):
    assert risks_of(parse(command)) != []


PROGRAMS = frozenset(key.partition(" ")[0] for key in _READS)
NAMES = st.from_regex(r"[a-zA-Z_.+-][\w.+-]{0,8}", fullmatch=True).filter(
    lambda name: name not in PROGRAMS
)
PLACES = ["{}", "ls && {} x", "ls | {}", "(cd a; {} -l)", "echo $({} x)", 'echo "$({})" b']
PLACES += ["for a in b; do {} $a; done", "if {}; then ls; fi", "ls\n{}", "! {} x", "ls & {}"]
PLACES += ["[ -f x ] || {}", "{} 2>/dev/null", "2>/dev/null {}", "while {}; do ls; done"]


@given(NAMES, st.sampled_from(PLACES), st.sampled_from(["{}", "'{}'", '"{}"', "\\{}"]))
def test_a_program_that_is_not_listed_asks(name, place, quoted):
    assert risks_of(parse(place.format(quoted.format(name)))) != []


@pytest.mark.parametrize(
    "command", ["ls " * 700, "(" * 1_900, "$(" * 900, "ls;" * 4_000, "! " * 900 + "ls"], ids=len
)
def test_what_is_too_long_or_too_deep_asks(command):
    assert risks_of(parse(command)) != []
