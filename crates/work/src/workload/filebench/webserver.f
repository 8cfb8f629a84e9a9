# A web server: ten pages read for each entry of its log. Parameters of the F2FSJ paper's artifact.
set $nfiles=250000
set $dirwidth=100
set $filesize=16k
set $appendsize=16k
set $iosize=1m
set $nthreads=1
set $count=12800000

define fileset name=pages,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize,prealloc=100,readonly
define file name=log,path=/,size=0,prealloc

define process name=server,instances=1
{
  thread name=handler,instances=$nthreads
  {
    flowop openfile name=open-1,filesetname=pages,fd=1
    flowop readwholefile name=read-1,iosize=$iosize,fd=1
    flowop closefile name=close-1,fd=1
    flowop openfile name=open-2,filesetname=pages,fd=1
    flowop readwholefile name=read-2,iosize=$iosize,fd=1
    flowop closefile name=close-2,fd=1
    flowop openfile name=open-3,filesetname=pages,fd=1
    flowop readwholefile name=read-3,iosize=$iosize,fd=1
    flowop closefile name=close-3,fd=1
    flowop openfile name=open-4,filesetname=pages,fd=1
    flowop readwholefile name=read-4,iosize=$iosize,fd=1
    flowop closefile name=close-4,fd=1
    flowop openfile name=open-5,filesetname=pages,fd=1
    flowop readwholefile name=read-5,iosize=$iosize,fd=1
    flowop closefile name=close-5,fd=1
    flowop openfile name=open-6,filesetname=pages,fd=1
    flowop readwholefile name=read-6,iosize=$iosize,fd=1
    flowop closefile name=close-6,fd=1
    flowop openfile name=open-7,filesetname=pages,fd=1
    flowop readwholefile name=read-7,iosize=$iosize,fd=1
    flowop closefile name=close-7,fd=1
    flowop openfile name=open-8,filesetname=pages,fd=1
    flowop readwholefile name=read-8,iosize=$iosize,fd=1
    flowop closefile name=close-8,fd=1
    flowop openfile name=open-9,filesetname=pages,fd=1
    flowop readwholefile name=read-9,iosize=$iosize,fd=1
    flowop closefile name=close-9,fd=1
    flowop openfile name=open-10,filesetname=pages,fd=1
    flowop readwholefile name=read-10,iosize=$iosize,fd=1
    flowop closefile name=close-10,fd=1
    flowop appendfile name=log-entry,filename=log,iosize=$appendsize,fd=2
    flowop finishoncount name=enough,value=$count
  }
}

run 86400
